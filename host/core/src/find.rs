//! Finding tools by words: ranked full-text search (BM25) over what tools say about themselves.
//!
//! Nothing is kept between two searches: five hundred tools take well under a millisecond. Deliberately
//! absent: who may see which tool, which the caller has settled.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::catalog::ToolDefinition;
use crate::limits::{FIND_QUERY_BYTES_MAX, FIND_TEXT_BYTES_MAX};
use crate::truncate;

/// How soon more of the same word adds little, and how much long texts count against their tool: the
/// usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// What a word counts in a tool's name, its title, and anywhere else.
const NAME_WEIGHT: f64 = 4.0;
const TITLE_WEIGHT: f64 = 2.0;
const TEXT_WEIGHT: f64 = 1.0;

/// What a tool says, as words with what each counts.
struct Page {
    words: BTreeMap<String, f64>,
    length: f64,
}

/// Returns the places of the `most` tools that fit `query` best, the best first. A tool with none of its
/// words is none of them; those that fit alike stay in their order.
pub fn rank<'a>(
    query: &str,
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
    most: usize,
) -> Vec<usize> {
    let pages: Vec<Page> = tools.into_iter().map(Page::of).collect();
    let mut wanted: Vec<String> = words(truncate::text(query, FIND_QUERY_BYTES_MAX)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let count = pages.len() as f64;
    let average = pages.iter().map(|page| page.length).sum::<f64>() / count.max(1.0);
    let mut scores = vec![0.0; pages.len()];
    for word in &wanted {
        let with = pages.iter().filter(|page| page.words.contains_key(word)).count() as f64;
        let rarity = (1.0 + (count - with + 0.5) / (with + 0.5)).ln();
        for (score, page) in scores.iter_mut().zip(&pages) {
            let times = page.words.get(word).copied().unwrap_or(0.0);
            let long = 1.0 - LENGTH + LENGTH * page.length / average.max(1.0);
            *score += rarity * times * (SATURATION + 1.0) / (times + SATURATION * long);
        }
    }
    let mut found: Vec<(usize, f64)> =
        scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
    found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    found.into_iter().take(most).map(|(at, _)| at).collect()
}

impl Page {
    fn of(tool: &ToolDefinition) -> Self {
        let mut page = Self { words: BTreeMap::new(), length: 0.0 };
        page.add(&tool.name, NAME_WEIGHT);
        page.add(tool.title.as_deref().unwrap_or_default(), TITLE_WEIGHT);
        page.add(&tool.description, TEXT_WEIGHT);
        let parameters = tool.input_schema.get("properties").and_then(Value::as_object);
        for (name, schema) in parameters.into_iter().flatten() {
            page.add(name, TEXT_WEIGHT);
            let says = schema.get("description").and_then(Value::as_str);
            page.add(says.unwrap_or_default(), TEXT_WEIGHT);
        }
        page
    }

    fn add(&mut self, text: &str, weight: f64) {
        for word in words(truncate::text(text, FIND_TEXT_BYTES_MAX)) {
            *self.words.entry(word).or_default() += weight;
            self.length += weight;
        }
    }
}

/// Returns the words of a text: letters and digits, in lower case, without the `s` of a plural.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| {
        let word = word.to_lowercase();
        match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, parameter: &str) -> ToolDefinition {
        let schema = json!({"type": "object", "properties": {parameter: {}}});
        ToolDefinition::new(name, description, schema)
    }

    fn found(query: &str) -> Vec<&'static str> {
        let tools = [
            tool("read_file", "Reads a file of the folder.", "path"),
            tool("github__create_issue", "Opens an issue in a repository.", "repository"),
            tool("github__list_issues", "Lists the issues of a repository.", "repository"),
            tool("weather", "Says how the weather will be in a place.", "city"),
        ];
        let names = ["read_file", "create_issue", "list_issues", "weather"];
        rank(query, &tools, 3).into_iter().map(|at| names[at]).collect()
    }

    #[test]
    fn what_fits_best_is_first_and_what_does_not_fit_is_absent() {
        assert_eq!(found("create issue"), ["create_issue", "list_issues"]);
        assert_eq!(found("list the open Issues of a Repository")[0], "list_issues");
        assert_eq!(found("files"), ["read_file"]);
        assert_eq!(found("city"), ["weather"], "the names of parameters count");
        for nothing in ["", "zebra", "---", "\u{0}"] {
            assert!(found(nothing).is_empty(), "{nothing:?}");
        }
    }

    #[test]
    fn a_rare_word_counts_more_than_a_frequent_one_and_shouting_helps_little() {
        let tools = [
            tool("a", &"file ".repeat(400), "x"),
            tool("b", "a file and its checksum", "x"),
            tool("c", "a file", "x"),
        ];
        assert_eq!(rank("file checksum", &tools, 3)[0], 1);
        assert_eq!(rank("file", &tools, 9).len(), 3);
        assert!(rank("file", &[], 3).is_empty());
    }
}
