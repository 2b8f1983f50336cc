"""The models, each kind behind a small Protocol and with a plain fake."""
