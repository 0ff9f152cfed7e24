//! Types, their schemas and their values, in one table: what fits a schema becomes a value and the
//! same JSON again, and what does not fit is refused.

use clawhost_core::schema::Schema;
use serde_json::{Value, json};
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Type, Val};

use super::functions::Functions;
use super::{docs::Docs, schema, value};

fn engine() -> wasmtime::Engine {
    wasmtime::Engine::default()
}

/// A function `(x: T) -> T` of the type that `ty` names; `named` declares what needs a name.
fn function(named: &str, ty: &str) -> ComponentFunc {
    let text = format!(r#"(component {named} (import "f" (func (param "x" {ty}) (result {ty}))))"#);
    let engine = engine();
    let component = Component::new(&engine, text).unwrap();
    let found = component.component_type();
    let mut imports = found.imports(&engine).filter_map(|(_, item)| match item.ty {
        ComponentItem::ComponentFunc(func) => Some(func),
        _ => None,
    });
    imports.next().unwrap()
}

/// Declares the type `body` as `$t`.
fn named(body: &str) -> String {
    format!(r#"(type $u {body}) (import "t" (type $t (eq $u)))"#)
}

fn lowered(func: &ComponentFunc, given: &Value) -> Result<Val, String> {
    let params: Vec<(String, Type)> =
        func.params().map(|(name, ty)| (name.to_owned(), ty)).collect();
    Ok(value::arguments(&params, &json!({"x": given}))?.remove(0))
}

fn check(func: &ComponentFunc, good: &[Value], bad: &[Value]) {
    let (input, output) = schema::of_function(func).unwrap();
    let (input, output) =
        (Schema::compile(&input).unwrap(), Schema::compile(&output.unwrap()).unwrap());
    for given in good {
        input.check(&json!({"x": given})).unwrap_or_else(|error| panic!("{given}: {error}"));
        let back = value::json(lowered(func, given).unwrap()).unwrap();
        assert_eq!(&back, given);
        output.check(&json!({"result": back})).unwrap();
    }
    for given in bad {
        let fits = input.check(&json!({"x": given})).is_ok() && lowered(func, given).is_ok();
        assert!(!fits, "{given}");
    }
}

#[test]
fn numbers_keep_their_bounds_and_every_digit() {
    check(&function("", "u8"), &[json!(0), json!(255)], &[json!(256), json!(-1), json!("1")]);
    check(&function("", "s8"), &[json!(-128)], &[json!(-129), json!(1.5), json!(null)]);
    check(&function("", "u32"), &[json!(4_294_967_295_u32)], &[json!(4_294_967_296_u64)]);
    let exact = 9_007_199_254_740_991_i64;
    let good = [json!(exact), json!("9007199254740992"), json!("18446744073709551615")];
    let bad = [json!(exact + 1), json!("18446744073709551616"), json!("-1"), json!("x"), json!("")];
    check(&function("", "u64"), &good, &bad);
    let good = [json!(-exact), json!("-9223372036854775808")];
    check(&function("", "s64"), &good, &[json!("9223372036854775808"), json!(-exact - 1)]);
    let good = [json!(0.1), json!(-1.5e300), json!("NaN"), json!("-Infinity")];
    check(&function("", "f64"), &good, &[json!("nan"), json!("1"), json!(true)]);
    check(&function("", "f32"), &[json!(0.1), json!("Infinity")], &[json!(1e39), json!([])]);
    assert_eq!(lowered(&function("", "s16"), &json!(5.0)).unwrap(), Val::S16(5));
}

#[test]
fn texts_and_options_keep_their_form() {
    check(&function("", "bool"), &[json!(true)], &[json!(1)]);
    check(&function("", "string"), &[json!(""), json!("ä🦀\0")], &[json!(null)]);
    check(&function("", "char"), &[json!("🦀")], &[json!(""), json!("ab")]);
    check(&function("", "(option u8)"), &[json!(null), json!(1)], &[json!("1")]);
    let nested = function("", "(option (option u8))");
    check(&nested, &[json!(null), json!({"some": null}), json!({"some": 1})], &[json!(1)]);
}

#[test]
fn compounds_are_closed() {
    check(&function("", "(list u8)"), &[json!([]), json!([1, 2])], &[json!([256]), json!("AQ==")]);
    let tuple = function("", "(tuple u8 string)");
    check(&tuple, &[json!([1, "a"])], &[json!([1]), json!([1, "a", 2]), json!(["a", 1])]);
    let record = named(r#"(record (field "a-b" u8) (field "c" (option u8)))"#);
    let good = [json!({"a-b": 1, "c": 2}), json!({"a-b": 1, "c": null})];
    let bad = [json!({"c": 2}), json!({"a-b": 1, "d": 1}), json!([])];
    check(&function(&record, "$t"), &good, &bad);
    let absent = lowered(&function(&record, "$t"), &json!({"a-b": 1})).unwrap();
    assert_eq!(value::json(absent).unwrap(), json!({"a-b": 1, "c": null}));
    let variant = named(r#"(variant (case "circle" f64) (case "none"))"#);
    let bad = [json!("none"), json!({}), json!({"circle": 1.0, "none": null}), json!({"x": 1})];
    check(&function(&variant, "$t"), &[json!({"circle": 1.5}), json!({"none": null})], &bad);
    let result = function("", "(list (result u8 (error string)))");
    check(&result, &[json!([{"ok": 1}, {"err": "no"}])], &[json!([1]), json!([{"ok": "no"}])]);
    let names = named(r#"(enum "red" "green")"#);
    check(&function(&names, "$t"), &[json!("red")], &[json!("blue"), json!(0)]);
    let flags = named(r#"(flags "r" "w")"#);
    check(&function(&flags, "$t"), &[json!([]), json!(["r", "w"])], &[json!(["x"]), json!("r")]);
}

#[test]
fn the_error_of_a_result_is_no_part_of_what_is_promised() {
    let (_, output) = schema::of_function(&function("", "(result u8 (error string))")).unwrap();
    let result = json!({"type": "integer", "minimum": 0, "maximum": 255});
    assert_eq!(output.unwrap()["properties"]["result"], result);
}

#[test]
fn more_values_than_are_passed_are_refused() {
    let many = vec![0; clawhost_core::limits::FUNCTION_VALUES_MAX];
    let error = lowered(&function("", "(list u8)"), &json!(many)).unwrap_err();
    assert!(error.contains("values"), "{error}");
}

#[test]
fn types_that_refer_to_each_other_in_many_ways_are_refused() {
    let mut text = r#"(type $u0 (record (field "a" u8) (field "b" u8)))
        (import "t0" (type $t0 (eq $u0)))"#
        .to_owned();
    for level in 1..12 {
        let below = level - 1;
        text += &format!(
            r#"(type $u{level} (record (field "a" $t{below}) (field "b" $t{below})))
            (import "t{level}" (type $t{level} (eq $u{level})))"#
        );
    }
    let error = schema::of_function(&function(&text, "$t11")).unwrap_err();
    assert!(error.contains("written out"), "{error}");
}

/// A component that exports the same empty function under these names.
fn exporting(names: &[String]) -> Result<Functions, String> {
    let exports: String =
        names.iter().map(|name| format!(r#"(export "{name}" (func $f))"#)).collect();
    let text = format!(
        r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) {exports})"#
    );
    let engine = engine();
    let component = Component::new(&engine, text).unwrap();
    Functions::of(&engine, &component, &Docs::default())
}

#[test]
fn a_function_with_a_huge_name_is_left_out_and_the_others_are_served() {
    let functions = exporting(&["good-one".to_owned(), "x".repeat(50_000)]).unwrap();
    let names: Vec<&str> = functions.definitions().iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["good_one"]);
    let [why] = functions.left_out() else { panic!("{:?}", functions.left_out()) };
    assert!(why.contains("is left out") && why.len() < 1_000, "{why}");
    assert!(exporting(&["x".repeat(70)]).is_err_and(|why| why.contains("no function of it")));
}

#[test]
fn ten_thousand_functions_are_refused() {
    let names: Vec<String> = (0..10_000).map(|number| format!("f{number}")).collect();
    let why = exporting(&names).err().unwrap();
    assert!(why.contains("functions") && why.len() < 200, "{why}");
}

#[test]
fn a_function_whose_schema_is_too_wide_or_too_deep_is_left_out_and_the_others_are_served() {
    let wide = format!("(type $t (tuple {}))", "u64 ".repeat(1_900));
    let deep: String = (0..90).map(|at| format!("(type $t{at} (option {}))", below(at))).collect();
    for (types, of, why) in [(wide, "$t", "values"), (deep, "$t89", "levels")] {
        let text = format!(
            r#"(component (core module $m (memory (export "memory") 1)
              (func (export "f") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m)) {types}
            (alias core export $i "memory" (core memory $memory))
            (func $bad (result {of}) (canon lift (core func $i "f") (memory $memory)))
            (func $good (result u32) (canon lift (core func $i "f")))
            (export "bad" (func $bad)) (export "good" (func $good)))"#
        );
        let engine = engine();
        let component = Component::new(&engine, text).unwrap();
        let functions = Functions::of(&engine, &component, &Docs::default()).unwrap();
        assert!(functions.get("good").is_some() && functions.get("bad").is_none());
        assert!(functions.left_out().concat().contains(why), "{:?}", functions.left_out());
    }
}

/// Returns what stands inside the option number `at`.
fn below(at: usize) -> String {
    at.checked_sub(1).map_or_else(|| "bool".to_owned(), |below| format!("$t{below}"))
}

#[test]
fn functions_that_share_one_large_type_are_bounded_in_sum() {
    let exports = |count: usize| -> String {
        (0..count).map(|at| format!(r#"(export "f{at}" (func $f))"#)).collect()
    };
    let served = |count| {
        let text = format!(
            r#"(component (core module $m (memory (export "memory") 1)
              (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
              (func (export "f") (param i32)))
            (core instance $i (instantiate $m)) (type $t (tuple {}))
            (alias core export $i "memory" (core memory $memory))
            (alias core export $i "r" (core func $realloc))
            (func $f (param "a" $t)
              (canon lift (core func $i "f") (memory $memory) (realloc $realloc))) {})"#,
            "u8 ".repeat(900),
            exports(count)
        );
        let engine = engine();
        let component = Component::new(&engine, text).unwrap();
        Functions::of(&engine, &component, &Docs::default())
    };
    assert_eq!(served(5).unwrap().definitions().len(), 5);
    let why = served(200).err().unwrap();
    assert!(why.contains("bytes of memory together"), "{why}");
}

#[test]
fn only_versions_that_are_known_are_served() {
    for exports in [
        &["claw:tool/tool@0.1.7"][..],
        &["wasi:cli/run@0.2.0"],
        &["wasi:cli/run@0.3.0"],
        &["add"],
        &["docs:adder/add@0.3.0", "memory"],
    ] {
        assert_eq!(super::check_exports(exports.iter().copied()), Ok(()), "{exports:?}");
    }
    for exports in
        [&[][..], &["add", "claw:tool/tool@0.2.0"], &["claw:tool/tool"], &["wasi:cli/run@0.4.0"]]
    {
        let error = super::check_exports(exports.iter().copied()).unwrap_err();
        assert!(error.contains("another world"), "{error}");
    }
}

#[test]
fn the_definition_of_a_command_keeps_the_rules() {
    clawhost_core::catalog::check_definition(&super::command(super::COMMAND_NAME)).unwrap();
}
