"""Where the real quote files are, if they are there at all."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("OCTOPIA_DATA", ROOT.parent / "shared" / "data"))
PADRES = DATA / "quotes_padres_100_symbols.csv.gz"
SP500 = DATA / "quotes_sp500_26_days.csv.gz"
