-- Failures by what they have in common, without anything that a caller sent.
CREATE TABLE anomalies (
    signature TEXT PRIMARY KEY,
    tool TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    times INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    -- The last times that still count, as JSON.
    recent TEXT NOT NULL,
    -- What helps, in words that callers read; a failure that has this does not count.
    procedure TEXT,
    resolved_by TEXT
) STRICT;
CREATE INDEX anomalies_by_age ON anomalies (last_ms);
-- Tools that rest.
CREATE TABLE quarantine (
    tool TEXT PRIMARY KEY,
    signature TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL
) STRICT;
