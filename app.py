"""Open the page, as `hubnmt app` does."""

import sys

from hubnmt.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["app", *sys.argv[1:]]))
