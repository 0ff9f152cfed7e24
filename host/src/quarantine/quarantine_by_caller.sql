-- A tool rests for who met its failures. What rested for everybody, and what was counted, begins anew.
DROP TABLE quarantine;
CREATE TABLE quarantine (
    tool TEXT NOT NULL,
    principal TEXT NOT NULL,
    signature TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    PRIMARY KEY (tool, principal)
) STRICT;
-- The last times that still count, as JSON: a list for each caller.
UPDATE anomalies SET recent = '{}';
