"""The operator's command line: one file per group of commands.

    main.py             the list of groups, and what becomes of an error
    context.py          settings and an open database for a command
    setting_sources.py  the settings in force, and where each came from
    options.py          the options and arguments that commands share
    output.py           JSON, tables and times

A command asks the rooms below and prints their answer; it decides nothing about the books itself.
"""
