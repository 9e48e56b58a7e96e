"""`python -m octopia`: the same as the `octopia` command, for where its folder is not on the path."""

from octopia.cli import main

if __name__ == "__main__":
    main()
