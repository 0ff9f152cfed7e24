-- Tools that the operator has switched off, on every host of this state folder.
CREATE TABLE disabled_tools (
    tool TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    reason TEXT,
    since_ms INTEGER NOT NULL
) STRICT;
