"""The operator's pages: what the gateway does, and every act that the command line has too.

pages.py     the list of all pages, and the rail
overview.py  what goes on, and what needs attention
accounts.py  accounts: list, one account, and the acts on it
requests.py  the log of calls, and one call's receipt
"""
