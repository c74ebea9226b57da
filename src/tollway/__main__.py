"""The command `tollway`."""

from tollway.cli.main import main

if __name__ == "__main__":
    main()
