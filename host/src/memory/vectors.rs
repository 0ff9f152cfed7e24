//! Vectors: what entries mean, as a model sees it, kept beside them and compared one by one.
//!
//! A vector has the length 1, so that the product of two is the cosine of their angle. An entry that
//! its model does not take has an empty one. Those of another model, or of another provider, count
//! as missing.

use std::collections::HashMap;

use clawhost_core::limits::{
    MEMORY_EMBEDDED_BYTES_MAX, MEMORY_TOP_K_MAX, MEMORY_VECTORS_BYTES_MAX,
};
use clawhost_core::manifest::EmbeddingPlan;
use clawhost_core::truncate;
use rusqlite::{Connection, Transaction, params};

use super::{Sql, words};

/// What the first ranks are worth beside those after them (Cormack et al., 2009).
const RANK_OFFSET: f64 = 60.0;

/// Entries, by their number, and how well they answer.
pub(super) type Ranking = Vec<(i64, f64)>;

/// A query as its model sees it.
pub(super) struct Near {
    pub(super) space: Space,
    pub(super) vector: Vec<f32>,
    /// Words are not looked for beside it.
    pub(super) alone: bool,
}

/// Where vectors compare with each other.
#[derive(Debug, Clone)]
pub(super) struct Space {
    model: String,
    bytes: usize,
}

impl Space {
    /// The newest entries of a part, as many as one query is compared with.
    const NEWEST: &str =
        "(SELECT * FROM memory_entries WHERE part = ?1 ORDER BY seq DESC LIMIT ?2) entry";

    pub(super) fn new(plan: &EmbeddingPlan) -> Self {
        let EmbeddingPlan { provider, model, dimensions, .. } = plan;
        let bytes = *dimensions as usize * size_of::<f32>();
        Self { model: format!("{provider} {dimensions} {model}"), bytes }
    }

    fn most(&self) -> u32 {
        u32::try_from(MEMORY_VECTORS_BYTES_MAX / self.bytes.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns at most so many of these entries that have no vector, the newest first, with the text that
    /// is to become one.
    pub(super) fn missing(
        &self,
        change: &Transaction<'_>,
        part: i64,
        since_ms: i64,
        most: u32,
    ) -> Sql<Vec<(i64, String)>> {
        let sql = format!(
            "SELECT seq, key, content FROM {} WHERE at_ms >= ?3 AND NOT EXISTS
                 (SELECT 1 FROM memory_vectors WHERE seq = entry.seq AND model = ?4)
             ORDER BY seq DESC LIMIT ?5",
            Self::NEWEST
        );
        let mut select = change.prepare(&sql)?;
        let given = params![part, self.most(), since_ms, self.model, most];
        let rows = select.query_map(given, |row| {
            let (key, content): (Option<String>, String) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, text_of(key.as_deref(), &content)?))
        })?;
        rows.collect()
    }

    /// Keeps the vectors of entries that are still there.
    pub(super) fn keep(&self, connection: &Connection, vectors: &[(i64, Vec<f32>)]) -> Sql<()> {
        let sql = "INSERT OR REPLACE INTO memory_vectors
            SELECT seq, ?2, ?3 FROM memory_entries WHERE seq = ?1";
        for (seq, vector) in vectors {
            connection.execute(sql, params![seq, self.model, blob(vector)])?;
        }
        Ok(())
    }
}

impl Near {
    /// Returns the nearest entries, the best first.
    pub(super) fn rank(&self, change: &Transaction<'_>, part: i64, since_ms: i64) -> Sql<Ranking> {
        let Self { space, vector, .. } = self;
        let sql = format!(
            "SELECT seq, vector FROM {} JOIN memory_vectors USING (seq)
             WHERE at_ms >= ?3 AND model = ?4 ORDER BY seq DESC",
            Space::NEWEST
        );
        let mut select = change.prepare(&sql)?;
        let mut rows = select.query(params![part, space.most(), since_ms, space.model])?;
        let mut ranking = Ranking::new();
        while let Some(row) = rows.next()? {
            let blob = row.get_ref(1)?.as_blob()?;
            // An empty vector is near to nothing.
            if blob.len() == space.bytes {
                ranking.push((row.get(0)?, product(blob, vector)));
            }
        }
        ranking.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        ranking.truncate(MEMORY_TOP_K_MAX as usize);
        Ok(ranking)
    }
}

/// Mixes rankings by how far to the front an entry stands in each (reciprocal rank fusion): their scores
/// do not compare. Of equal ones the newer comes first.
pub(super) fn mixed(rankings: [Ranking; 2]) -> Ranking {
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for ranking in rankings {
        for ((seq, _), rank) in ranking.into_iter().zip(1_u32..) {
            *scores.entry(seq).or_default() += 1.0 / (RANK_OFFSET + f64::from(rank));
        }
    }
    let mut mixed: Ranking = scores.into_iter().collect();
    mixed.sort_by(|(new, a), (old, b)| b.total_cmp(a).then(old.cmp(new)));
    mixed
}

/// Returns `vector` with the length 1; one without direction stays as it is.
pub(super) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|n| f64::from(*n).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "no part is longer than the whole")]
        vector.iter_mut().for_each(|n| *n = (f64::from(*n) / length) as f32);
    }
    vector
}

/// Returns the beginning of what words see of an entry. A text without any becomes a vector too.
fn text_of(key: Option<&str>, content: &str) -> Sql<String> {
    let text = words::of_entry(key, &super::rows::json(content)?);
    Ok(beginning(if text.is_empty() { content } else { &text }))
}

/// Returns what of a text becomes a vector.
pub(super) fn beginning(text: &str) -> String {
    truncate::text(text, MEMORY_EMBEDDED_BYTES_MAX).to_owned()
}

fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn product(blob: &[u8], vector: &[f32]) -> f64 {
    let (numbers, _) = blob.as_chunks();
    let pairs = numbers.iter().zip(vector);
    f64::from(pairs.map(|(bytes, number)| f32::from_le_bytes(*bytes) * number).sum::<f32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_keeps_its_direction_and_has_the_length_1() {
        assert_eq!(unit(vec![3.0, 4.0]), [0.6, 0.8]);
        assert_eq!(unit(vec![0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(unit(vec![f32::MAX, f32::MAX]), unit(vec![1.0, 1.0]));
        let (a, b) = (unit(vec![1.0, 2.0]), unit(vec![-2.0, 1.0]));
        assert!(product(&blob(&a), &b).abs() < 1e-6);
        assert!((product(&blob(&a), &a) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_stands_in_front_of_both_rankings_is_best() {
        let ranking = |seqs: &[i64]| seqs.iter().map(|seq| (*seq, 0.0)).collect::<Ranking>();
        let order = |a: &[i64], b: &[i64]| {
            let mixed = mixed([ranking(a), ranking(b)]);
            mixed.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>()
        };
        assert_eq!(order(&[1, 2, 3], &[3, 2, 4]), [3, 2, 1, 4]);
        assert_eq!(order(&[1], &[]), [1]);
        assert_eq!(order(&[1], &[2]), [2, 1]);
    }
}
