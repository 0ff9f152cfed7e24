//! What a server is given with its start or with each request: its environment or its headers,
//! with the secrets in them, and the jail around a program.

use clawhost_core::grants::{Access, Grants, Mount};
use clawhost_core::limits::BRIDGE_OPEN_FILES_MAX;
use clawhost_core::manifest::McpValue;
use http::header::{HeaderMap, HeaderName};
use zeroize::Zeroizing;

use crate::jail::{self, JailSpec};
use crate::secrets::Secrets;
use crate::upstream::http::sensitive;

/// Returns the jail of a program under `grants`.
pub(super) fn jail(grants: &Grants) -> Result<JailSpec, String> {
    if !grants.denied_paths.is_empty() {
        return Err("`denied_paths` cannot hold a native program: grant less instead".to_owned());
    }
    if grants.network.is_some() && !jail::grants_network(grants) {
        return Err("a native program gets the whole network or none: that takes `network.mode: allow-all` with `ssrf_protection: {enabled: false}`, or `deny`".to_owned());
    }
    let mut grants = grants.clone();
    if grants.mounts.is_empty() {
        let (host, guest) = (jail::NOWHERE.into(), "/".to_owned());
        grants.mounts.push(Mount { host, guest, access: Access::ReadOnly, create: false });
    }
    // A runtime opens its modules beside each other.
    grants.limits.open_files = grants.limits.open_files.max(BRIDGE_OPEN_FILES_MAX);
    let spec = JailSpec::granted(&grants).map_err(|error| error.to_string())?;
    let spec = spec.executing_read_only().reserving_addresses();
    Ok(if jail::grants_network(&grants) { spec.allowing_network() } else { spec })
}

/// Returns the declared variables and their values.
pub(super) async fn environment(
    env: &[(String, McpValue)],
    secrets: &Secrets,
) -> Result<Vec<(String, String)>, String> {
    let mut values = Vec::new();
    for (name, setting) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("no environment can hold {name:?}"));
        }
        values.push((name.clone(), value(setting, secrets).await?.to_string()));
    }
    Ok(values)
}

/// Returns the declared headers and their values.
pub(super) async fn headers(
    headers: &[(String, McpValue)],
    secrets: &Secrets,
) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, setting) in headers {
        let text = value(setting, secrets).await?;
        let key = HeaderName::try_from(name).map_err(|_| format!("{name:?} names no header"))?;
        let unfit = || format!("the value of `{name}` cannot be sent in a header");
        map.insert(key, sensitive("", &text).ok_or_else(unfit)?);
    }
    Ok(map)
}

/// Returns a value; a secret is looked up anew each time.
async fn value(setting: &McpValue, secrets: &Secrets) -> Result<Zeroizing<String>, String> {
    let (name, before) = match setting {
        McpValue::Literal(text) => return Ok(text.clone().into()),
        McpValue::Secret(name) => (name, ""),
        McpValue::Bearer(name) => (name, "Bearer "),
    };
    let secret = secrets.find(name).await.map_err(|error| error.to_string())?;
    Ok(format!("{before}{}", secret.expose()).into())
}
