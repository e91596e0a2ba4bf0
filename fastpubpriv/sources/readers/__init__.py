"""One reader for each kind of data that holds rows."""
