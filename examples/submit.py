"""`octopia` as an application of Spark. Everything after this file's name is a command line of octopia:

spark-submit --master spark://host:7077 --py-files octopia.whl examples/submit.py pipeline run --out /shared/run
"""

from octopia.cli import main

if __name__ == "__main__":
    main()
