"""The operator's command line.

    main.py             the list of commands, and what becomes of an error
    lazy.py             loads a command when it is called
    command.py          how a command is declared, and its session: settings and database
    setting_sources.py  the settings in force, and where each came from
    parameters.py       the arguments and options that commands share
    arguments.py        how they are read, shown in the help, and refused
    output.py           JSON, tables, times and progress bars
    files.py            files that commands write
    statements.py       statements of a month, for `ledger`

Every other file has one group of commands, or a few that go together: the list of `main.py` says
which. A command asks the packages below and prints their answer; it decides nothing itself.
"""
