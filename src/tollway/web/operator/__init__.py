"""The operator's pages: what the gateway does, and every act that the command line has too.

pages.py      the list of all pages, and the rail
overview.py   what goes on, and what needs attention
accounts.py   accounts: the list, and one with the acts on it
requests.py   the log of calls, and one call's receipt
attention.py  the alarms of the overview
shops.py      shops, users and consents, and one shop with the acts on it
tokens.py     the tokens and the clients of an account
carrier.py    one carrier, and the acts on it
carriers.py   carriers, pools of numbers, the list of waybills
waybill.py    one waybill with its label, and the acts on it
data.py       imports and sources
rejected.py   rejected records, and why each was rejected
operators.py  the people who run the gateway, and all second factors
system.py     nodes, audit, backup, settings
trail.py      the trail of acts
tables.py     what these lists share
prices.py     operations: common prices, and what one account may call
"""
