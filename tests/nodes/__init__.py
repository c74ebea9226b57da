"""Several processes, several nodes, several servers behind them."""
