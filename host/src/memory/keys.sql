CREATE TABLE key_values (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    set_at_ms INTEGER NOT NULL,
    value TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX key_values_by_key ON key_values (owner, key);
CREATE INDEX key_values_by_size ON key_values (owner, bytes);
