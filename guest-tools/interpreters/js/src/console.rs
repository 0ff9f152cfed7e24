//! `console`: prints each argument as text, and values as the interpreter shows them.

use std::rc::Rc;

use boa_engine::object::ObjectInitializer;
use boa_engine::property::Attribute;
use boa_engine::{Context, JsResult, JsValue, NativeFunction, js_string};
use claw_script::Output;

/// Gives programs of `context` a `console` that prints to `output`.
pub(crate) fn install(context: &mut Context, output: Rc<Output>) -> JsResult<()> {
    context.insert_data(output);
    let mut console = ObjectInitializer::new(context);
    for (name, print) in [
        (js_string!("log"), NativeFunction::from_fn_ptr(print)),
        (js_string!("info"), NativeFunction::from_fn_ptr(print)),
        (js_string!("debug"), NativeFunction::from_fn_ptr(print)),
        (js_string!("warn"), NativeFunction::from_fn_ptr(print_error)),
        (js_string!("error"), NativeFunction::from_fn_ptr(print_error)),
    ] {
        console.function(print, name, 0);
    }
    let console = console.build();
    context.register_global_property(js_string!("console"), console, Attribute::all())
}

fn print(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    write(context, arguments, Output::print)
}

fn print_error(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    write(context, arguments, Output::print_error)
}

fn write(context: &Context, arguments: &[JsValue], print: fn(&Output, &str)) -> JsResult<JsValue> {
    if let Some(output) = context.get_data::<Rc<Output>>() {
        let shown: Vec<_> = arguments.iter().map(shown).collect();
        print(output, &shown.join(" "));
        print(output, "\n");
    }
    Ok(JsValue::undefined())
}

fn shown(value: &JsValue) -> String {
    match value.as_string() {
        Some(text) => text.to_std_string_lossy(),
        None => value.display().to_string(),
    }
}
