//! Asking a component what it offers: under empty grants, its own fuel and its own second.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawhost_core::bridged;
use clawhost_core::catalog::{self, Annotations, ToolDefinition};
use clawhost_core::json;
use clawhost_core::limits::{COMPONENT_TOOLS_MAX, GUEST_STARTUP_MS, TOOL_SCHEMA_BYTES_MAX};
use wasmtime::component::InstancePre;

use super::{LoadError, kinds};
use crate::sandbox::bindings::GuestIndices;
use crate::sandbox::bindings::exports::claw::tool::tool;
use crate::sandbox::clock::{Exceeded, watch};
use crate::sandbox::{CallState, Sandbox};

const STARTUP: Duration = Duration::from_millis(GUEST_STARTUP_MS);

/// Returns the checked definitions of a component, sorted by name.
pub(super) async fn describe(
    pre: &InstancePre<CallState>,
    indices: &GuestIndices,
) -> Result<Vec<ToolDefinition>, LoadError> {
    let state = Sandbox::empty().enter("describe", STARTUP, None).map_err(|e| e.to_string())?;
    let mut store = state.into_store(pre.engine()).map_err(|e| e.to_string())?;
    let answer = watch(Instant::now() + STARTUP, async {
        let instance = pre.instantiate_async(&mut store).await?;
        let guest = indices.load(&mut store, &instance)?;
        guest.claw_tool_tool().call_describe(&mut store).await
    });
    let described = match answer.await {
        Err(_) => return Err(late()),
        // The guest notices the time too, where it yields.
        Ok(Err(error)) if error.downcast_ref::<Exceeded>() == Some(&Exceeded::Time) => {
            return Err(late());
        }
        Ok(Err(error)) if error.is::<wasmtime::PoolConcurrencyLimitError>() => {
            let reason = "the host is too busy to ask it what it offers";
            return Err(LoadError::Passing(reason.to_owned()));
        }
        Ok(Err(error)) => {
            let why = store.data().log.explanation().unwrap_or_else(|| format!("{error:#}"));
            return Err(LoadError::Unusable(format!("`describe` failed: {why}")));
        }
        Ok(Ok(described)) => described,
    };
    Ok(check(definitions(described)?)?)
}

fn late() -> LoadError {
    LoadError::Unusable(format!("`describe` did not answer within {GUEST_STARTUP_MS} ms"))
}

/// Reads what a component describes, and ends where that takes too much memory.
fn definitions(described: Vec<tool::Definition>) -> Result<Vec<ToolDefinition>, String> {
    let mut held = 0;
    let one = |raw| {
        let definition = definition(raw)?;
        held = kinds::held_with(held, &definition)?;
        Ok::<_, String>(definition)
    };
    described.into_iter().map(one).collect()
}

fn check(mut definitions: Vec<ToolDefinition>) -> Result<Vec<ToolDefinition>, String> {
    if definitions.is_empty() {
        return Err("it describes no tool".to_owned());
    }
    if definitions.len() > COMPONENT_TOOLS_MAX {
        return Err(format!(
            "it describes {} tools; at most {COMPONENT_TOOLS_MAX} are taken",
            definitions.len()
        ));
    }
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names = BTreeSet::new();
    for definition in &mut definitions {
        catalog::check_definition(definition)?;
        *definition = bridged::cleaned(definition, &definition.name)?;
        if !names.insert(catalog::ckp_name(&definition.name)) {
            return Err(format!("it describes `{}` twice", definition.name));
        }
    }
    Ok(definitions)
}

fn definition(raw: tool::Definition) -> Result<ToolDefinition, String> {
    let name = raw.name;
    let parse = |what: &str, text: &str| {
        if text.len() > TOOL_SCHEMA_BYTES_MAX {
            return Err(format!(
                "the {what} of tool {name:?} is over {TOOL_SCHEMA_BYTES_MAX} bytes"
            ));
        }
        json::parse(text.as_bytes())
            .map_err(|error| format!("the {what} of tool {name:?} is no JSON: {error}"))
    };
    Ok(ToolDefinition {
        input_schema: parse("input schema", &raw.input_schema)?,
        output_schema: raw
            .output_schema
            .as_deref()
            .map(|text| parse("output schema", text))
            .transpose()?,
        title: raw.title,
        description: raw.description,
        annotations: Annotations {
            read_only: raw.annotations.read_only,
            destructive: raw.annotations.destructive,
            idempotent: raw.annotations.idempotent,
            open_world: raw.annotations.open_world,
        },
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What describes a tool of this name whose arguments have so many properties.
    fn described(name: String, properties: usize) -> tool::Definition {
        let property = |at| format!(r#""p{at}":{{"minimum":0,"maximum":1}}"#);
        let properties: Vec<_> = (0..properties).map(property).collect();
        tool::Definition {
            name,
            title: None,
            description: "d".to_owned(),
            input_schema: format!(
                r#"{{"type":"object","properties":{{{}}}}}"#,
                properties.join(",")
            ),
            output_schema: None,
            annotations: tool::Annotations {
                read_only: None,
                destructive: None,
                idempotent: None,
                open_world: None,
            },
        }
    }

    #[test]
    fn what_a_component_describes_is_bounded_in_sum() {
        let all = |tools: usize, properties| {
            definitions((0..tools).map(|at| described(format!("t{at}"), properties)).collect())
        };
        assert_eq!(all(COMPONENT_TOOLS_MAX, 40).unwrap().len(), COMPONENT_TOOLS_MAX);
        assert_eq!(all(5, 1_900).unwrap().len(), 5);
        let why = all(COMPONENT_TOOLS_MAX - 1, 1_900).unwrap_err();
        assert!(why.contains("bytes of memory together"), "{why}");
    }
}
