//! The functions that a component exports, at its root or in an interface: each is a tool.
//!
//! A function that cannot be one (it takes a resource, its types are too many, its name too long)
//! is left out, with the reason; the others are served.

use std::collections::BTreeMap;

use clawhost_core::bridged;
use clawhost_core::catalog::ToolDefinition;
use clawhost_core::limits::{COMPONENT_TOOLS_MAX, ERROR_TEXT_BYTES_MAX};
use clawhost_core::truncate;
use wasmtime::component::types::{ComponentFunc, ComponentInstance, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Type};

use super::docs::Docs;
use super::{held_with, schema, tool_name};

/// The part of a name that a message shows: it is as long as its author likes.
const NAME_SHOWN_BYTES_MAX: usize = 100;

/// Every function of a component that is a tool, and why the others are none.
#[derive(Default)]
pub(crate) struct Functions {
    definitions: Vec<ToolDefinition>,
    by_tool: BTreeMap<String, Function>,
    left_out: Vec<String>,
    /// What the schemas of all of them take in memory, in bytes.
    held: usize,
}

/// One function, ready to be called.
pub(crate) struct Function {
    pub(crate) export: ComponentExportIndex,
    pub(crate) params: Vec<(String, Type)>,
    pub(crate) result: Option<Type>,
}

/// What functions are read from.
struct Source<'a> {
    engine: &'a wasmtime::Engine,
    component: &'a Component,
    docs: &'a Docs,
}

impl Functions {
    /// Reads what `component` exports.
    ///
    /// # Errors
    /// A sentence: none that can be a tool, too many or too large, or two that would have one name.
    pub(super) fn of(
        engine: &wasmtime::Engine,
        component: &Component,
        docs: &Docs,
    ) -> Result<Self, String> {
        let source = Source { engine, component, docs };
        let mut all = Self::default();
        for (name, item) in component.component_type().exports(engine) {
            let export = component.get_export_index(None, name);
            match item.ty {
                ComponentItem::ComponentFunc(func) => {
                    all.add(&source, None, name, &func, export)?
                }
                ComponentItem::ComponentInstance(instance) => {
                    all.add_all(&source, name, &instance, export)?;
                }
                _ => {}
            }
        }
        if all.definitions.is_empty() {
            let why = truncate::reasons(all.left_out.into_iter()).join("; ");
            let why = if why.is_empty() { "it exports none" } else { &why };
            return Err(format!("no function of it can be a tool: {why}"));
        }
        all.definitions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns the tools, sorted by name.
    pub(crate) fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Returns why functions were left out, one sentence each.
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the function behind a tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&Function> {
        self.by_tool.get(tool)
    }

    fn add_all(
        &mut self,
        source: &Source<'_>,
        interface: &str,
        instance: &ComponentInstance,
        at: Option<ComponentExportIndex>,
    ) -> Result<(), String> {
        for (name, item) in instance.exports(source.engine) {
            if let ComponentItem::ComponentFunc(func) = item.ty
                && !is_pythons(interface, name, &func)
            {
                let export = source.component.get_export_index(at.as_ref(), name);
                self.add(source, Some(interface), name, &func, export)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        source: &Source<'_>,
        interface: Option<&str>,
        name: &str,
        func: &ComponentFunc,
        export: Option<ComponentExportIndex>,
    ) -> Result<(), String> {
        if self.by_tool.len() + self.left_out.len() >= COMPONENT_TOOLS_MAX {
            return Err(format!("it exports more than {COMPONENT_TOOLS_MAX} functions"));
        }
        let made = tool(source.docs, interface, name, func);
        let (definition, export) = match (made, export) {
            (Ok(definition), Some(export)) => (definition, export),
            (made, _) => {
                let why = made.err().unwrap_or_else(|| "it cannot be found".to_owned());
                self.left_out.push(format!("`{}` is left out: {why}", shown(name)));
                return Ok(());
            }
        };
        self.held = held_with(self.held, &definition)?;
        let params = func.params().map(|(name, ty)| (name.to_owned(), ty)).collect();
        let function = Function { export, params, result: func.results().next() };
        let tool = definition.name.clone();
        self.definitions.push(definition);
        match self.by_tool.insert(tool.clone(), function) {
            None => Ok(()),
            Some(_) => Err(format!("two of its functions would be the tool `{tool}`")),
        }
    }
}

/// Says whether a function is the one by which componentize-py prepares a component while it builds it: every
/// component that it builds exports that, and no author means it as a tool.
fn is_pythons(interface: &str, name: &str, func: &ComponentFunc) -> bool {
    interface == "exports" && name == "init" && func.params().any(|(name, _)| name == "app-name")
}

/// Returns the tool that a function is.
fn tool(
    docs: &Docs,
    interface: Option<&str>,
    name: &str,
    func: &ComponentFunc,
) -> Result<ToolDefinition, String> {
    if name.starts_with('[') {
        return Err("it belongs to a resource, which no tool can hold".to_owned());
    }
    let short = interface.map(last_name);
    let (input_schema, output_schema) = schema::of_function(func)?;
    let own = short.map_or_else(|| tool_name(name), |short| tool_name(&format!("{short}-{name}")));
    let description = docs.of(short, name).map_or_else(|| told(interface, name), str::to_owned);
    let definition = ToolDefinition::new(own, description, input_schema);
    let definition = ToolDefinition { output_schema, ..definition };
    // The reason may quote the name.
    bridged::cleaned(&definition, &definition.name)
        .map_err(|why| truncate::text(&why, ERROR_TEXT_BYTES_MAX / 8).to_owned())
}

/// What is said of a function that nobody described.
fn told(interface: Option<&str>, name: &str) -> String {
    let of = interface.map_or_else(String::new, |interface| format!(" of `{}`", shown(interface)));
    format!("The function `{name}`{of}.")
}

fn shown(name: &str) -> &str {
    truncate::text(name, NAME_SHOWN_BYTES_MAX)
}

/// Returns the name of an interface without package and version: `add` of `docs:adder/add@0.1.0`.
fn last_name(interface: &str) -> &str {
    let name = interface.split_once('@').map_or(interface, |(name, _)| name);
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_gives_its_last_name() {
        assert_eq!(last_name("docs:adder/add@0.1.0-rc.1"), "add");
        assert_eq!(last_name("plain"), "plain");
        assert_eq!(tool_name("math-sum-up"), "math_sum_up");
    }
}
