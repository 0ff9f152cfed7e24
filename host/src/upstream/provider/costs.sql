CREATE TABLE provider_costs (
    day INTEGER NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    provider TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    nano_usd INTEGER NOT NULL,
    PRIMARY KEY (day, agent, tool, provider)
) STRICT, WITHOUT ROWID;
