//! What completions cost, by day, agent, tool and provider; and what each agent spent, by the minute.
//!
//! It is written with the ledger, in the same transaction: what is reserved is spent, until it is
//! settled. Deliberately absent: deciding anything. Limits look at the ledger, and a budget at the minutes.

use clawhost_core::limits::{
    BUDGET_PIECE_MS, BUDGET_WINDOW_MS_MAX, COST_DAYS_MAX, COSTS_LISTED_MAX,
};
use clawhost_core::quota::{Reservation, Spent, Used};
use rusqlite::{Connection, Row, params};

/// The table, made for stores that have none yet.
pub(super) const TABLE: &str = include_str!("costs.sql");
/// What budgets look at.
pub(super) const SPENT_TABLE: &str = "CREATE TABLE agent_spending (
    agent TEXT NOT NULL,
    minute INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    nano_usd INTEGER NOT NULL,
    PRIMARY KEY (agent, minute)
) STRICT, WITHOUT ROWID";

/// The most that one change adds: a million dollars, of which thousands fit into a number of the store.
const CHANGE_MAX: u64 = 1 << 50;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who called the tool.
    pub agent: String,
    /// The tool.
    pub tool: String,
}

impl Caller {
    /// Returns the caller of those names.
    pub fn new(agent: &str, tool: &str) -> Self {
        Self { agent: agent.to_owned(), tool: tool.to_owned() }
    }
}

/// What the completions of one agent, tool and provider came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Who asked.
    pub caller: Caller,
    /// Who was asked.
    pub provider: String,
    /// Requests that were sent.
    pub requests: u64,
    /// What they used.
    pub used: Used,
    /// What that costs, in billionths of a US dollar.
    pub nano_usd: u64,
}

/// What one change of the ledger adds to the costs of a day.
pub(super) struct Change {
    day: u64,
    at_ms: u64,
    requests: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
    nano_usd: i64,
}

impl Change {
    /// What `held` adds when it is made.
    pub(super) fn made(held: &Reservation) -> Self {
        Self::of(held, 1, Used::default(), held.held())
    }

    /// What it adds when `used` of it was used.
    pub(super) fn settled(held: &Reservation, used: Used) -> Self {
        Self::of(held, 0, held.held(), used)
    }

    /// What it adds when nothing was sent.
    pub(super) fn released(held: &Reservation) -> Self {
        Self::of(held, -1, held.held(), Used::default())
    }

    fn of(held: &Reservation, requests: i64, before: Used, after: Used) -> Self {
        let less = |before, after| signed(after).saturating_sub(signed(before));
        Self {
            day: held.day(),
            at_ms: held.at_ms(),
            requests,
            prompt_tokens: less(before.prompt_tokens, after.prompt_tokens),
            completion_tokens: less(before.completion_tokens, after.completion_tokens),
            nano_usd: less(held.cost_nano_usd(before), held.cost_nano_usd(after)),
        }
    }

    pub(super) fn write(
        &self,
        connection: &Connection,
        caller: &Caller,
        provider: &str,
    ) -> rusqlite::Result<()> {
        connection.execute(
            "INSERT INTO provider_costs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (day, agent, tool, provider) DO UPDATE SET
                requests = requests + ?5, prompt_tokens = prompt_tokens + ?6,
                completion_tokens = completion_tokens + ?7, nano_usd = nano_usd + ?8",
            params![
                signed(self.day),
                caller.agent,
                caller.tool,
                provider,
                self.requests,
                self.prompt_tokens,
                self.completion_tokens,
                self.nano_usd,
            ],
        )?;
        let oldest = signed(self.day) - i64::from(COST_DAYS_MAX);
        connection.execute("DELETE FROM provider_costs WHERE day < ?1", [oldest])?;
        if self.nano_usd != 0 {
            spend(connection, &caller.agent, self.at_ms, (0, self.nano_usd))?;
        }
        Ok(())
    }
}

/// Adds requests and costs to what an agent spent, and forgets what no budget looks at any more.
pub(super) fn spend(
    connection: &Connection,
    agent: &str,
    at_ms: u64,
    (requests, nano_usd): (i64, i64),
) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO agent_spending VALUES (?1, ?2, ?3, ?4) ON CONFLICT (agent, minute) DO UPDATE SET
            requests = requests + ?3, nano_usd = nano_usd + ?4",
        params![agent, signed(at_ms / BUDGET_PIECE_MS), requests, nano_usd],
    )?;
    let oldest = signed(at_ms.saturating_sub(BUDGET_WINDOW_MS_MAX) / BUDGET_PIECE_MS);
    connection.execute(
        "DELETE FROM agent_spending WHERE agent = ?1 AND minute < ?2 - 1",
        params![agent, oldest],
    )?;
    Ok(())
}

/// Takes along what an agent spent, where the clock was set back by more than the window: it is of this minute
/// then, or it would count until the clock has caught up.
fn turn(connection: &Connection, agent: &str, window_ms: u64, now_ms: u64) -> rusqlite::Result<()> {
    let (now, end) = (now_ms / BUDGET_PIECE_MS, now_ms.saturating_add(window_ms) / BUDGET_PIECE_MS);
    connection.execute(
        "INSERT INTO agent_spending
            SELECT agent, ?2, sum(requests), CAST(total(nano_usd) AS INTEGER) FROM agent_spending
            WHERE agent = ?1 AND minute > ?3 GROUP BY agent
         ON CONFLICT (agent, minute) DO UPDATE SET
            requests = requests + excluded.requests, nano_usd = nano_usd + excluded.nano_usd",
        params![agent, signed(now), signed(end)],
    )?;
    connection.execute(
        "DELETE FROM agent_spending WHERE agent = ?1 AND minute > ?2",
        params![agent, signed(end)],
    )?;
    Ok(())
}

/// Returns what an agent spent in the window before `now_ms`.
pub(super) fn spent(
    connection: &Connection,
    agent: &str,
    window_ms: u64,
    now_ms: u64,
) -> rusqlite::Result<Spent> {
    turn(connection, agent, window_ms, now_ms)?;
    let first = signed(now_ms.saturating_sub(window_ms) / BUDGET_PIECE_MS);
    let number = |row: &Row<'_>, at| {
        row.get::<_, Option<i64>>(at)
            .map(|n| n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default())
    };
    connection.query_row(
        "SELECT sum(requests), CAST(total(nano_usd) AS INTEGER), min(minute) FROM agent_spending
         WHERE agent = ?1 AND minute >= ?2",
        params![agent, first],
        |row| {
            let oldest_ms = number(row, 2)?.saturating_mul(BUDGET_PIECE_MS);
            Ok(Spent { requests: number(row, 0)?, nano_usd: number(row, 1)?, oldest_ms })
        },
    )
}

/// Reads the costs since the day `first`, the dearest first: of one agent, or of all.
pub(super) fn read(
    connection: &Connection,
    first: u64,
    agent: Option<&str>,
) -> rusqlite::Result<Vec<Cost>> {
    let mut select = connection.prepare(
        "SELECT agent, tool, provider, sum(requests), CAST(total(prompt_tokens) AS INTEGER),
                CAST(total(completion_tokens) AS INTEGER), CAST(total(nano_usd) AS INTEGER) AS cost
         FROM provider_costs WHERE day >= ?1 AND (?2 IS NULL OR agent = ?2)
         GROUP BY agent, tool, provider HAVING sum(requests) > 0
         ORDER BY cost DESC, agent, tool, provider LIMIT ?3",
    )?;
    let rows = select.query_map(params![signed(first), agent, COSTS_LISTED_MAX], cost)?;
    rows.collect()
}

fn cost(row: &Row<'_>) -> rusqlite::Result<Cost> {
    let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or_default());
    Ok(Cost {
        caller: Caller { agent: row.get(0)?, tool: row.get(1)? },
        provider: row.get(2)?,
        requests: number(3)?,
        used: Used { prompt_tokens: number(4)?, completion_tokens: number(5)? },
        nano_usd: number(6)?,
    })
}

/// Returns a number that may be added to others: what is more than any request can cost is that much.
fn signed(number: u64) -> i64 {
    i64::try_from(number.min(CHANGE_MAX)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clawhost_core::policy::Rates;
    use clawhost_core::quota::{Ask, Ledger, Prices, ProviderLimits};

    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn store() -> Connection {
        let store = Connection::open_in_memory().unwrap();
        store.execute_batch(&format!("{TABLE};{SPENT_TABLE}")).unwrap();
        store
    }

    /// Ten tokens and ten, at two and three billionths of a dollar each: fifty.
    fn reserve(day: u64) -> Reservation {
        reserve_of(day, 10)
    }

    fn reserve_of(day: u64, completion_tokens: u64) -> Reservation {
        let ask = Ask {
            provider: "main".to_owned(),
            limits: ProviderLimits::default(),
            prices: Prices { input_nano_usd: 2, output_nano_usd: 3 },
            prompt_tokens: 10,
            is_open: false,
            completion_tokens: Some(completion_tokens),
            left_nano_usd: None,
        };
        Ledger::default().reserve(&ask, &Rates::default(), day * DAY_MS).unwrap()
    }

    fn costs(store: &Connection, first: u64, agent: Option<&str>) -> Vec<(String, u64, u64)> {
        let costs = read(store, first, agent).unwrap().into_iter();
        costs.map(|cost| (cost.caller.agent, cost.requests, cost.nano_usd)).collect()
    }

    #[test]
    fn what_is_reserved_is_spent_until_it_is_settled_or_released() {
        let (store, ada) = (store(), Caller::new("ada", "t"));
        let held = reserve(20_000);
        Change::made(&held).write(&store, &ada, "main").unwrap();
        assert_eq!(costs(&store, 20_000, None), [("ada".to_owned(), 1, 50)]);
        let used = Used { prompt_tokens: 4, completion_tokens: 20 };
        Change::settled(&held, used).write(&store, &ada, "main").unwrap();
        let cost = read(&store, 20_000, None).unwrap().remove(0);
        assert_eq!((cost.requests, cost.used, cost.nano_usd), (1, used, 68));
        let window_ms = DAY_MS;
        let spent = |at_ms| spent(&store, "ada", window_ms, at_ms).unwrap().nano_usd;
        assert_eq!([20_000, 20_001, 20_002].map(|day| spent(day * DAY_MS)), [68, 68, 0]);
        let unsent = reserve(20_000);
        Change::made(&unsent).write(&store, &ada, "main").unwrap();
        Change::released(&unsent).write(&store, &ada, "main").unwrap();
        assert_eq!(costs(&store, 20_000, None), [("ada".to_owned(), 1, 68)]);
    }

    #[test]
    fn what_was_spent_before_the_clock_was_set_back_counts_for_one_window_more() {
        let store = store();
        Change::made(&reserve(20_000)).write(&store, &Caller::new("ada", "t"), "main").unwrap();
        let (window_ms, back_ms) = (2 * BUDGET_PIECE_MS, 19_000 * DAY_MS);
        let spent = |at_ms| spent(&store, "ada", window_ms, at_ms).unwrap().nano_usd;
        let later_ms = back_ms + window_ms;
        assert_eq!([back_ms, later_ms, later_ms + BUDGET_PIECE_MS].map(spent), [50, 50, 0]);
    }

    #[test]
    fn no_request_is_too_dear_to_be_written_down() {
        let (store, ada) = (store(), Caller::new("ada", "t"));
        for _ in 0..100 {
            Change::made(&reserve_of(20_000, u64::MAX)).write(&store, &ada, "main").unwrap();
        }
        assert_eq!(costs(&store, 0, None), [("ada".to_owned(), 100, 100 * CHANGE_MAX)]);
        assert_eq!(spent(&store, "ada", 1, 20_000 * DAY_MS).unwrap().nano_usd, 100 * CHANGE_MAX);
        let held = reserve_of(20_000, u64::MAX);
        Change::made(&held).write(&store, &ada, "main").unwrap();
        Change::settled(&held, Used::default()).write(&store, &ada, "main").unwrap();
        assert_eq!(costs(&store, 0, None), [("ada".to_owned(), 101, 100 * CHANGE_MAX)]);
    }

    #[test]
    fn costs_are_those_of_the_days_and_the_agent_that_are_asked_for_and_old_ones_go() {
        let store = store();
        let write = |day: u64, agent: &str| {
            Change::made(&reserve(day)).write(&store, &Caller::new(agent, "t"), "main").unwrap();
        };
        for (day, agent) in [(20_000, "ada"), (20_001, "bob"), (20_001, "bob"), (20_002, "ada")] {
            write(day, agent);
        }
        assert_eq!(costs(&store, 20_002, None), [("ada".to_owned(), 1, 50)]);
        assert_eq!(costs(&store, 20_001, Some("bob")), [("bob".to_owned(), 2, 100)]);
        assert_eq!(costs(&store, 0, None).len(), 2);
        assert!(costs(&store, 0, Some("eve")).is_empty());
        write(20_001 + u64::from(COST_DAYS_MAX), "ada");
        assert_eq!(costs(&store, 0, Some("ada")), [("ada".to_owned(), 2, 100)]);
    }
}
