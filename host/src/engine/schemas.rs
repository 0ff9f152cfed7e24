//! Compiled schemas, each compiled once as long as somebody uses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use clawhost_core::digest;
use clawhost_core::schema::Schema;
use parking_lot::Mutex;
use serde_json::Value;

/// The schemas in use, by the digest of their canonical form.
#[derive(Debug, Default)]
pub struct Schemas {
    used: Mutex<BTreeMap<String, Weak<Schema>>>,
    compiled: AtomicU64,
}

impl Schemas {
    /// Returns `schema` compiled: as it is in use already, wherever that is.
    ///
    /// # Errors
    /// As [`Schema::compile`].
    pub fn get(&self, schema: &Value) -> Result<Arc<Schema>, String> {
        self.shared(schema, |_| {
            let compiled = Schema::compile(schema)?;
            self.compiled.fetch_add(1, Ordering::Relaxed);
            Ok(compiled)
        })
    }

    /// As [`Schemas::get`], of a schema that was compiled before, and is compiled again where a value is
    /// checked first.
    ///
    /// # Errors
    /// None that occurs.
    pub(crate) fn known(&self, schema: &Value) -> Result<Arc<Schema>, String> {
        self.shared(schema, |digest| Ok(Schema::known(schema.clone(), digest)))
    }

    fn shared(
        &self,
        schema: &Value,
        make: impl FnOnce(String) -> Result<Schema, String>,
    ) -> Result<Arc<Schema>, String> {
        let digest = digest::of_json(schema);
        // Held while it compiles: two that want the same one compile it once.
        let mut used = self.used.lock();
        if let Some(schema) = used.get(&digest).and_then(Weak::upgrade) {
            return Ok(schema);
        }
        let made = Arc::new(make(digest.clone())?);
        // Now and then: a start with many would look through all of them for each.
        if used.len().is_power_of_two() {
            used.retain(|_, schema| schema.strong_count() > 0);
        }
        used.insert(digest, Arc::downgrade(&made));
        Ok(made)
    }

    /// Returns how often a schema was compiled.
    pub fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_compiled_once_as_long_as_somebody_uses_it() {
        let schemas = Schemas::default();
        let first = schemas.get(&json!({"type": "object", "minProperties": 1})).unwrap();
        let same = schemas.get(&json!({"minProperties": 1, "type": "object"})).unwrap();
        assert!(Arc::ptr_eq(&first, &same));
        let other = schemas.get(&json!({"type": "object"})).unwrap();
        assert_eq!(schemas.compiled(), 2);
        drop((first, same, other));
        assert!(schemas.get(&json!({"type": "no such type"})).is_err());
        let again = schemas.get(&json!({"type": "object"})).unwrap();
        assert!(again.check(&json!({})).is_ok());
        assert_eq!((schemas.compiled(), schemas.used.lock().len()), (3, 1));
    }

    #[test]
    fn what_nobody_uses_any_more_is_forgotten_also_where_nothing_is_compiled() {
        let schemas = Schemas::default();
        for at in 0..100 {
            let known = schemas.known(&json!({"minProperties": at})).unwrap();
            assert!(Arc::ptr_eq(&known, &schemas.get(&json!({"minProperties": at})).unwrap()));
        }
        assert_eq!(schemas.compiled(), 0);
        assert!(schemas.used.lock().len() < 3);
    }
}
