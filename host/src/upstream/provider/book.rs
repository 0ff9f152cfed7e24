//! The ledger, kept in the store: a host that is killed forgets nothing that was reserved.
//!
//! The store has the last word: each change reads the accounts, decides and writes in one
//! transaction, so that two hosts with one store share one allowance.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::MEMORY_QUERY_MS;
use clawhost_core::policy::{Rates, Usage};
use clawhost_core::quota::{Account, Ask, Budget, Ledger, Reservation, Used};
use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::types::Type;

use super::costs::{self, Caller, Change, Cost};
use crate::clock;
use crate::state::{Database, DatabaseError};

const DAY_MS: u64 = 86_400_000;

/// The tables of this module.
pub const MIGRATIONS: &[&str] = &[
    "CREATE TABLE provider_accounts (provider TEXT PRIMARY KEY, account TEXT NOT NULL) STRICT",
    costs::TABLE,
    costs::SPENT_TABLE,
];

/// The ledger as this host last read it, and where it is kept.
#[derive(Debug)]
pub(super) struct Book {
    database: Database,
    ledger: Arc<Mutex<Ledger>>,
}

impl Book {
    pub(super) async fn open(database: Database) -> Result<Self, DatabaseError> {
        let book = Self { database, ledger: Arc::default() };
        book.reread().await?;
        Ok(book)
    }

    /// Takes in what others have kept: on the store's own thread, so that nothing older comes after.
    pub(super) async fn reread(&self) -> Result<(), DatabaseError> {
        let shared = Arc::clone(&self.ledger);
        let work = move |connection: &mut Connection| {
            *shared.lock() = load(connection)?;
            Ok(())
        };
        self.database.run(work).await
    }

    pub(super) fn usage(&self) -> Usage {
        self.ledger.lock().usage(now_ms())
    }

    pub(super) fn tokens_last_hour(&self) -> u64 {
        self.ledger.lock().tokens_last_hour(now_ms())
    }

    /// Returns what was spent on the last `days` days, by one agent or by all.
    pub(super) async fn costs(
        &self,
        days: u32,
        agent: Option<String>,
    ) -> Result<Vec<Cost>, DatabaseError> {
        read_costs(&self.database, days, agent).await
    }

    /// Reserves on disk what a request may use, before it is sent.
    ///
    /// # Errors
    /// The limit that it would exceed; and where the store cannot be used nothing is sent.
    pub(super) async fn reserve(
        &self,
        caller: &Caller,
        mut ask: Ask,
        rates: Rates,
        budget: Option<Budget>,
    ) -> Result<Reservation, CallError> {
        let (provider, agent) = (ask.provider.clone(), caller.agent.clone());
        let decide = move |ledger: &mut Ledger, store: &Connection| {
            if let Some(budget) = budget {
                let spent = costs::spent(store, &agent, budget.window_ms, now_ms())?;
                ask.left_nano_usd = budget.left_nano_usd(&spent);
            }
            let made = ledger.reserve(&ask, &rates, now_ms());
            let cost = made.as_ref().ok().map(Change::made);
            Ok((made, cost))
        };
        let decided = self.change(caller, &provider, decide).await;
        decided.map_err(|error| error.into_call_error(ErrorKind::Internal))?
    }

    /// Counts a request of `agent`, where its budget leaves room for one.
    ///
    /// # Errors
    /// There is none; and where the store cannot be used nothing is answered.
    pub(super) async fn admit(&self, agent: &str, budget: Budget) -> Result<(), CallError> {
        let agent = agent.to_owned();
        let work = move |store: &mut Connection| {
            let change = store.transaction()?;
            let now_ms = now_ms();
            let spent = costs::spent(&change, &agent, budget.window_ms, now_ms)?;
            let checked = budget.check(&agent, &spent, now_ms);
            if checked.is_ok() || budget.is_soft {
                costs::spend(&change, &agent, now_ms, (1, 0))?;
            }
            change.commit()?;
            Ok(checked)
        };
        let checked = self.database.run(work).await;
        match checked.map_err(|error| error.into_call_error(ErrorKind::Internal))? {
            Err(error) if budget.is_soft => {
                tracing::warn!("{}; it is only said", error.message);
                Ok(())
            }
            checked => checked,
        }
    }

    /// Replaces a reservation by what was used; where the provider did not say, it stays. So it
    /// does where the store fails: the completion is there all the same.
    pub(super) async fn settle(
        &self,
        caller: &Caller,
        reservation: Reservation,
        used: Option<Used>,
    ) {
        let Some(used) = used else {
            return;
        };
        let provider = reservation.provider().to_owned();
        let settle = move |ledger: &mut Ledger, _: &Connection| {
            let cost = Change::settled(&reservation, used);
            Ok((ledger.settle(reservation, used), Some(cost)))
        };
        stays(&provider, self.change(caller, &provider, settle).await);
    }

    /// Takes a reservation back.
    pub(super) async fn release(&self, caller: &Caller, reservation: Reservation) {
        let provider = reservation.provider().to_owned();
        let release = move |ledger: &mut Ledger, _: &Connection| {
            let cost = Change::released(&reservation);
            Ok((ledger.release(reservation), Some(cost)))
        };
        stays(&provider, self.change(caller, &provider, release).await);
    }

    async fn change<T: Send + 'static>(
        &self,
        caller: &Caller,
        provider: &str,
        decide: impl FnOnce(&mut Ledger, &Connection) -> rusqlite::Result<(T, Option<Change>)>
        + Send
        + 'static,
    ) -> Result<T, DatabaseError> {
        let (provider, shared) = (provider.to_owned(), Arc::clone(&self.ledger));
        let caller = caller.clone();
        let work = move |connection: &mut Connection| {
            let change = connection.transaction()?;
            let before = load(&change)?;
            let mut ledger = before.clone();
            let (decided, cost) = decide(&mut ledger, &change)?;
            let is_new = |(of, account): &(&str, &Account)| before.account(of) != Some(*account);
            for (of, account) in ledger.accounts().filter(is_new) {
                keep(&change, of, account)?;
            }
            if let Some(cost) = cost {
                cost.write(&change, &caller, &provider)?;
            }
            change.commit()?;
            *shared.lock() = ledger;
            Ok(decided)
        };
        self.database.run(work).await
    }
}

fn load(connection: &Connection) -> rusqlite::Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut accounts = connection.prepare("SELECT provider, account FROM provider_accounts")?;
    let mut rows = accounts.query(())?;
    while let Some(row) = rows.next()? {
        let (provider, account): (String, String) = (row.get(0)?, row.get(1)?);
        ledger.restore(&provider, parse(&account)?);
    }
    Ok(ledger)
}

fn parse(account: &str) -> rusqlite::Result<Account> {
    serde_json::from_str(account)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into()))
}

fn keep(connection: &Connection, provider: &str, account: &Account) -> rusqlite::Result<()> {
    let account = serde_json::to_string(account)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.execute(
        "INSERT INTO provider_accounts VALUES (?1, ?2) ON CONFLICT (provider) DO UPDATE SET account = ?2",
        (provider, account),
    )?;
    Ok(())
}

fn stays(provider: &str, done: Result<(), DatabaseError>) {
    if let Err(error) = done {
        tracing::warn!(provider, "a reservation stays as it is: {error}");
    }
}

fn now_ms() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or_default()
}

/// Returns what completions cost on the last `days` days, today included (UTC), the dearest first: the
/// costs of `agent`, or of all of them.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn read_costs(
    database: &Database,
    days: u32,
    agent: Option<String>,
) -> Result<Vec<Cost>, DatabaseError> {
    let first = (now_ms() / DAY_MS).saturating_add(1).saturating_sub(u64::from(days));
    let read = move |db: &mut Connection| costs::read(db, first, agent.as_deref());
    database.search(Duration::from_millis(MEMORY_QUERY_MS), read).await
}

#[cfg(test)]
mod tests {
    use clawhost_core::quota::{Prices, ProviderLimits};

    use super::*;

    #[tokio::test]
    async fn what_another_host_asks_for_counts_once_it_is_read() {
        let database = Database::in_memory(&[("providers", MIGRATIONS)]).unwrap();
        let mine = Book::open(database.clone()).await.unwrap();
        let other = Book::open(database).await.unwrap();
        let ask = Ask {
            provider: "main".to_owned(),
            limits: ProviderLimits::default(),
            prices: Prices { input_nano_usd: 1_000_000_000, output_nano_usd: 0 },
            prompt_tokens: 7,
            is_open: false,
            completion_tokens: Some(3),
            left_nano_usd: None,
        };
        let caller = Caller::new("ada", "t");
        let _held = other.reserve(&caller, ask, Rates::default(), None).await.unwrap();
        assert_eq!(mine.tokens_last_hour(), 0);
        mine.reread().await.unwrap();
        assert_eq!(mine.tokens_last_hour(), 10);
        assert!((mine.usage().cost_today_usd - 7.0).abs() < 1e-9);
    }
}
