//! PostgreSQL as the store of versions, so that hosts on several machines follow one registry.
//!
//! Off this machine the connection is encrypted and the server proves its name, unless the operator's URL
//! says `sslmode=disable`. Deliberately absent: the URL in any message, as it may hold a password, and
//! certificates that this host would show.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use clawhost_core::egress::TargetHost;
use clawhost_core::limits::{EGRESS_CONNECT_MS, RELEASE_STORE_MS};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, IsolationLevel, Transaction};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::store::{Cell, Row, Statement};
use crate::upstream::http::{TrustedRoots, client_config};

const TABLES: &str = include_str!("postgres.sql");
/// How many tables there are by the names of [`TABLES`]. The catalog itself is asked: what is asked by name alone
/// answers within a transaction as it did before the transaction waited for another.
const FOUND: &str = "SELECT count(*) FROM pg_class WHERE pg_table_is_visible(oid) AND \
     relname IN ('registry_components', 'registry_pins', 'tool_registries')";
const ALL_FOUND: i64 = 3;
/// What transactions that write wait for, so that no two count versions at once, and nobody makes the tables
/// that another writes to.
const ALONE: &str = "SELECT pg_advisory_xact_lock(7236832946128)";
/// Ends a transaction at the server when this host has given it up. Where it has vanished meanwhile, nothing else would
/// tell the server for hours, for which all others would wait for what the transaction has locked.
static BOUNDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SET LOCAL statement_timeout = {RELEASE_STORE_MS}; \
         SET LOCAL idle_in_transaction_session_timeout = {RELEASE_STORE_MS}"
    )
});
const NOT_ALL: &str = "PostgreSQL: of the tables `registry_components`, `registry_pins` and \
     `tool_registries` there are only some, so another program has them: give the registry a database of its own";

/// One PostgreSQL, connected to when it is first asked, and anew after any error.
pub(super) struct Postgres {
    config: Config,
    tls: Tls,
    client: Mutex<Option<Client>>,
}

clawhost_core::shows!(Postgres {});

impl Postgres {
    /// Reads the URL; nothing is connected to yet.
    ///
    /// # Errors
    /// It is none, without what it says.
    pub(super) fn new(
        url: &str,
        password: Option<&str>,
        roots: &TrustedRoots,
    ) -> Result<Self, String> {
        let mut config =
            Config::from_str(url).map_err(|_| "its URL is none of a PostgreSQL".to_owned())?;
        if let Some(password) = password {
            config.password(password);
        }
        config.connect_timeout(Duration::from_millis(EGRESS_CONNECT_MS));
        if config.get_ssl_mode() == SslMode::Prefer {
            let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
            let is_here =
                hosts.iter().all(is_here) && addresses.iter().all(|address| address.is_loopback());
            config.ssl_mode(if is_here { SslMode::Disable } else { SslMode::Require });
        }
        let tls = client_config(roots).map_err(|error| error.to_string())?;
        Ok(Self { config, tls: Tls(Arc::new(tls)), client: Mutex::default() })
    }

    /// As [`Store::run`](super::store::Store::run).
    pub(super) async fn run(&self, all: &[Statement]) -> Result<Vec<Vec<Row>>, String> {
        let mut place = self.client.lock().await;
        let work = async {
            // Taken out: a connection that failed, or whose answer nobody waited for, is not used again.
            let mut client = match place.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => self.connect().await?,
            };
            let rows = rows(&mut client, all).await.map_err(|error| told(&error))?;
            *place = Some(client);
            Ok(rows)
        };
        let done = timeout(Duration::from_millis(RELEASE_STORE_MS), work).await;
        done.unwrap_or_else(|_| Err(format!("PostgreSQL took over {RELEASE_STORE_MS} ms")))
    }

    async fn connect(&self) -> Result<Client, String> {
        let (hosts, addresses) = (self.config.get_hosts().len(), self.config.get_hostaddrs().len());
        let hosts = u32::try_from(hosts.max(addresses).max(1)).unwrap_or(u32::MAX);
        // Its own timeout ends with the connection, before the server has said anything.
        let patience = Duration::from_millis(EGRESS_CONNECT_MS).saturating_mul(hosts);
        let connecting = timeout(patience, self.config.connect(self.tls.clone()));
        let late = |_| format!("PostgreSQL did not answer within {} ms", patience.as_millis());
        let (mut client, connection) =
            connecting.await.map_err(late)?.map_err(|error| told(&error))?;
        // It ends with its client; what it ends with, the next question says.
        tokio::spawn(async move { drop(connection.await) });
        match have_tables(&mut client).await.map_err(|error| told(&error))? {
            true => Ok(client),
            false => Err(NOT_ALL.to_owned()),
        }
    }
}

/// Makes the tables where there is none of them, and says whether all are there.
async fn have_tables(client: &mut Client) -> Result<bool, tokio_postgres::Error> {
    let found: i64 = client.query_one(FOUND, &[]).await?.try_get(0)?;
    if found == ALL_FOUND {
        return Ok(true);
    }
    let change = begin(client).await?;
    change.batch_execute(ALONE).await?;
    // Another host may have made them meanwhile.
    let found: i64 = change.query_one(FOUND, &[]).await?.try_get(0)?;
    if found == 0 {
        change.batch_execute(TABLES).await?;
    }
    change.commit().await?;
    Ok(found == 0 || found == ALL_FOUND)
}

/// Begins a transaction. Whatever the database has else, each of its statements sees what was there when that one began:
/// what waited for its turn looks at what came before.
async fn begin(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let transaction = transaction.start().await?;
    transaction.batch_execute(&BOUNDED).await?;
    Ok(transaction)
}

async fn rows(
    client: &mut Client,
    all: &[Statement],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let transaction = begin(client).await?;
    if all.len() > 1 {
        transaction.batch_execute(ALONE).await?;
    }
    let mut answers = Vec::new();
    for (sql, cells) in all {
        let cells: Vec<_> = cells.iter().map(Cell::for_postgres).collect();
        let rows = transaction.query(*sql, &cells).await?;
        answers.push(rows.iter().map(row).collect::<Result<_, _>>()?);
    }
    transaction.commit().await?;
    Ok(answers)
}

fn row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let cell = |index: usize, column: &tokio_postgres::Column| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.map(Cell::Int),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index)?.map(Cell::Bytes),
            _ => row.try_get::<_, Option<String>>(index)?.map(Cell::Text),
        }
        .unwrap_or(Cell::Null))
    };
    row.columns().iter().enumerate().map(|(index, column)| cell(index, column)).collect()
}

impl Cell {
    fn for_postgres(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int(number) => number,
            Self::Null => &None::<String>,
            Self::Text(text) => text,
        }
    }
}

/// Says what PostgreSQL says, or why it could not.
fn told(error: &tokio_postgres::Error) -> String {
    let why = error.as_db_error().map(|error| error.message().to_owned());
    let why = why.or_else(|| error.source().map(ToString::to_string));
    format!("PostgreSQL: {error}{}", why.map(|why| format!(": {why}")).unwrap_or_default())
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let name =
                name.parse().map_or_else(|_| TargetHost::Name(name.clone()), TargetHost::Address);
            name.is_this_machine()
        }
        Host::Unix(_) => true,
    }
}

/// Encrypts connections, and lets a server prove the name in the URL.
#[derive(Clone)]
struct Tls(Arc<ClientConfig>);

struct Handshake(Arc<ClientConfig>, String);

struct Encrypted<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = Infallible;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Infallible> {
        Ok(Handshake(Arc::clone(&self.0), domain.to_owned()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.1).map_err(io::Error::other)?;
            TlsConnector::from(self.0).connect(name, stream).await.map(Encrypted)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others_as_everywhere() {
        for (name, here) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("localhost.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_here(&Host::Tcp(name.to_owned())), here, "{name}");
        }
    }
}
