"""The web page and the HTTP API of `casmap serve`."""
