//! A runner's choice of the tools that a model may, or has to, call.

use serde_json::Value;

use super::offers::Offers;
use super::values::{remove, set};
use crate::json::text;

/// A choice of tools by our names means those that the model was shown.
pub(super) fn rename_choice(request: &mut Value, offers: &Offers) {
    let Some(choice) = request.get_mut("tool_choice") else { return };
    for name in chosen(choice).into_iter().filter_map(name_in) {
        if let Some(offer) = name.as_str().and_then(|name| offers.find(name)) {
            *name = offer.name.as_str().into();
        }
    }
}

/// Leaves the choice of a tool to the model where the runner's choice would have it call ours in every round. One
/// that the runner's own tools meet as well stays: the runner waits for such a call.
pub(super) fn free_choice(request: &mut Value, offers: &Offers) {
    let Some(choice) = request.get_mut("tool_choice") else { return };
    let is_ours = |name: &mut Value| name.as_str().is_some_and(|name| offers.find(name).is_some());
    let are_ours = chosen(choice).into_iter().all(|tool| name_in(tool).is_some_and(is_ours));
    let is_any = *choice == "required" || text(choice, "type") == "any";
    if !(are_ours || is_any && offers.are_all()) {
        return;
    }
    if let Some(place) = several(choice) {
        // Which tools may be called stays as it is.
        let mode = choice.pointer_mut(place).and_then(|several| several.get_mut("mode"));
        mode.into_iter().for_each(|mode| *mode = "auto".into());
    } else if matches!(text(choice, "type"), "any" | "tool") {
        remove(choice, &["name"]);
        set(choice, "type", "auto".into());
    } else {
        *choice = "auto".into();
    }
}

/// Returns where a choice names several tools, of which one may have to be called.
fn several(choice: &Value) -> Option<&'static str> {
    let places = ["/allowed_tools", ""];
    places.into_iter().find(|at| choice.pointer(at).is_some_and(|of| of.get("tools").is_some()))
}

/// Returns the tools that a choice names.
fn chosen(choice: &mut Value) -> Vec<&mut Value> {
    let Some(place) = several(choice) else { return vec![choice] };
    let tools = choice.pointer_mut(place).and_then(|several| several.get_mut("tools"));
    tools.and_then(Value::as_array_mut).into_iter().flatten().collect()
}

fn name_in(tool: &mut Value) -> Option<&mut Value> {
    let place = if tool.get("function").is_some() { "/function/name" } else { "/name" };
    tool.pointer_mut(place)
}
