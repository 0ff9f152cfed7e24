//! A guest that runs the fuzzer's bytes as a program of host calls.
//!
//! It is made from the contract: each function of each interface becomes one step, which takes its
//! arguments from the program: numbers, texts out of a table or out of the program itself, and
//! handles that earlier steps were given. So a new function is tried as soon as it is declared.
//!
//! Deliberately absent: functions with more than 16 parameters, and handles inside variants.

use std::fmt::Write as _;

use wit_parser::abi::{AbiVariant, FlatTypes, WasmType};
use wit_parser::{
    Function, Handle, Int, InterfaceId, SizeAlign, Type, TypeDefKind, TypeId, WorldItem,
};

use super::world::World;

/// Where a call's result is written to.
const RESULT: u32 = 8_192;
/// Where lists of other things than bytes are put together.
const LISTS: u32 = 12_288;
/// Handles, [`HANDLES`] of each resource.
const TABLES: u32 = 16_384;
const HANDLES: u32 = 64;
const HEAP: u32 = 65_536;
/// Steps of one program.
const STEPS_MAX: u32 = 200;
/// How much of what it was given the guest answers with.
const ANSWER_BYTES_MAX: u32 = 49_152;
/// The one tool.
pub const TOOL: &str = "calls";

/// Returns the component; `texts` is what names, paths, addresses and the like are taken from.
pub fn component(interfaces: &[&str], texts: &[&str]) -> Vec<u8> {
    let world = World::with(interfaces);
    let module = Maker::new(&world).module(texts);
    let module = wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    world.component(module).expect("it fits its world")
}

struct Maker<'w> {
    world: &'w World,
    sizes: SizeAlign,
    resources: Vec<TypeId>,
    imports: String,
    steps: Vec<String>,
    /// Steps that are given handles for nothing: each program begins with all of them.
    first: Vec<usize>,
}

impl<'w> Maker<'w> {
    fn new(world: &'w World) -> Self {
        let mut sizes = SizeAlign::default();
        sizes.fill(&world.resolve);
        let (resources, imports, steps, first) = Default::default();
        Self { world, sizes, resources, imports, steps, first }
    }

    fn module(mut self, texts: &[&str]) -> String {
        let resolve = &self.world.resolve;
        for item in resolve.worlds[self.world.id].imports.values() {
            if let WorldItem::Interface { id, .. } = item {
                self.interface(*id);
            }
        }
        let mut text = String::from("(module (type $step (func))\n");
        text += &self.imports;
        text += include_str!("interpreter.wat");
        for number in 0..self.resources.len() as u32 {
            text += &handles(number);
        }
        let names: Vec<_> = (0..self.steps.len()).map(|number| format!("$s{number}")).collect();
        for (name, body) in names.iter().zip(&self.steps) {
            writeln!(text, "(func {name} (type $step) {LOCALS}\n{body})").unwrap();
        }
        let first = self.first.iter().map(|number| format!("(call $s{number})"));
        writeln!(text, "(func $first {})", first.collect::<String>()).unwrap();
        writeln!(text, "(table funcref (elem {}))", names.join(" ")).unwrap();
        text += &data(texts);
        let numbers = [
            ("STEPS_MAX", STEPS_MAX),
            ("STEPS", self.steps.len() as u32),
            ("TEXTS", texts.len() as u32),
            ("ANSWER", ANSWER_BYTES_MAX),
            ("HEAP", HEAP),
        ];
        numbers.iter().fold(text, |text, (name, value)| text.replace(name, &value.to_string()))
    }

    fn interface(&mut self, id: InterfaceId) {
        let resolve = &self.world.resolve;
        let module = resolve.id_of(id).expect("it has a name");
        for function in resolve.interfaces[id].functions.values() {
            self.function(&module, function);
        }
        for (name, of) in &resolve.interfaces[id].types {
            if matches!(resolve.types[*of].kind, TypeDefKind::Resource) {
                let number = self.resource(*of);
                let import = self.import(&module, &format!("[resource-drop]{name}"), "(param i32)");
                self.steps.push(format!("{}(call {import} (call $take{number}))", guard(number)));
            }
        }
    }

    fn import(&mut self, module: &str, name: &str, signature: &str) -> String {
        let import = format!("$i{}", self.imports.lines().count());
        writeln!(self.imports, "(import {module:?} {name:?} (func {import} {signature}))").unwrap();
        import
    }

    fn function(&mut self, module: &str, function: &Function) {
        let signature = self.world.resolve.wasm_signature(AbiVariant::GuestImport, function);
        if signature.indirect_params {
            return;
        }
        let types =
            |list: &[WasmType]| list.iter().map(|of| core(*of)).collect::<Vec<_>>().join(" ");
        let (params, results) = (types(&signature.params), types(&signature.results));
        let import =
            self.import(module, &function.name, &format!("(param {params}) (result {results})"));
        let (mut guards, mut arguments, mut lists) = Default::default();
        for param in &function.params {
            self.guards(&param.ty, &mut guards);
            self.push(&param.ty, &mut arguments, &mut lists);
        }
        let mut step = format!("{guards}{arguments}");
        if signature.retptr {
            write!(step, "(call {import} (i32.const {RESULT}))").unwrap();
            let found =
                function.result.and_then(|of| self.collect(&of, &format!("(i32.const {RESULT})")));
            step += &found.unwrap_or_default();
        } else {
            write!(step, "(call {import})").unwrap();
            match function.result.and_then(|of| self.handle(&of)) {
                Some((number, _)) => write!(step, "(call $keep{number})").unwrap(),
                None => signature.results.iter().for_each(|_| step.push_str("(drop)")),
            }
        }
        if function.params.is_empty() && step.contains("$keep") {
            self.first.push(self.steps.len());
        }
        self.steps.push(step);
    }

    /// Returns the number of a resource, whatever name it goes by.
    fn resource(&mut self, mut of: TypeId) -> u32 {
        while let TypeDefKind::Type(Type::Id(original)) = self.world.resolve.types[of].kind {
            of = original;
        }
        let known = self.resources.iter().position(|known| *known == of);
        let number = known.unwrap_or_else(|| {
            self.resources.push(of);
            self.resources.len() - 1
        });
        number as u32
    }

    fn kind(&self, of: &Type) -> Option<&'w TypeDefKind> {
        match of {
            Type::Id(id) => Some(&self.world.resolve.types[*id].kind),
            _ => None,
        }
    }

    /// Returns the resource of a handle, and whether it is given away.
    fn handle(&mut self, of: &Type) -> Option<(u32, bool)> {
        match self.kind(of)? {
            TypeDefKind::Handle(Handle::Own(id)) => Some((self.resource(*id), true)),
            TypeDefKind::Handle(Handle::Borrow(id)) => Some((self.resource(*id), false)),
            TypeDefKind::Type(inner) => self.handle(inner),
            _ => None,
        }
    }

    /// Ends the step where a handle that it needs is not there.
    fn guards(&mut self, of: &Type, text: &mut String) {
        if let Some((number, _)) = self.handle(of) {
            text.push_str(&guard(number));
        }
    }

    fn flat(&self, of: &Type) -> Vec<WasmType> {
        let mut storage = [WasmType::I32; 16];
        let mut flat = FlatTypes::new(&mut storage);
        self.world.resolve.push_flat(of, &mut flat);
        flat.to_vec()
    }

    /// Puts one argument on the stack.
    fn push(&mut self, of: &Type, text: &mut String, lists: &mut u32) {
        match (of, self.kind(of)) {
            (Type::Bool, _) => text.push_str("(call $below (i32.const 2))"),
            (Type::String, _) => text.push_str("(call $text)"),
            (Type::Char, _) => text.push_str("(i32.and (call $byte) (i32.const 127))"),
            (_, None) => self.flat(of).iter().for_each(|core| text.push_str(any(*core))),
            (_, Some(TypeDefKind::Type(inner))) => self.push(inner, text, lists),
            (_, Some(TypeDefKind::Handle(_))) => {
                let Some((number, is_own)) = self.handle(of) else { return };
                let how = if is_own { "take" } else { "peek" };
                write!(text, "(call ${how}{number})").unwrap();
            }
            (_, Some(TypeDefKind::Record(record))) => {
                record.fields.iter().for_each(|field| self.push(&field.ty, text, lists));
            }
            (_, Some(TypeDefKind::Tuple(tuple))) => {
                tuple.types.iter().for_each(|of| self.push(of, text, lists));
            }
            (_, Some(TypeDefKind::Flags(flags))) => {
                let mask = (1_u64 << flags.flags.len().min(32)) - 1;
                write!(text, "(i32.and (call $byte) (i32.const {mask}))").unwrap();
            }
            (_, Some(TypeDefKind::Enum(of))) => choose(of.cases.len(), text),
            (_, Some(TypeDefKind::Option(inner))) => {
                choose(2, text);
                if let Some((number, _)) = self.handle(inner) {
                    write!(text, "(i32.ne (global.get $n{number}) (i32.const 0)) i32.and").unwrap();
                }
                self.push(inner, text, lists);
            }
            (_, Some(TypeDefKind::List(Type::U8))) => text.push_str("(call $bytes)"),
            (_, Some(TypeDefKind::List(inner))) => self.list(inner, text, lists),
            (_, Some(TypeDefKind::Variant(variant))) => {
                self.any_case(of, variant.cases.len(), text)
            }
            (_, Some(TypeDefKind::Result(_))) => self.any_case(of, 2, text),
            (_, Some(other)) => panic!("the contract has a type nobody thought of: {other:?}"),
        }
    }

    /// A case, and something that may be its payload: a text where there is room for one.
    fn any_case(&self, of: &Type, cases: usize, text: &mut String) {
        choose(cases, text);
        let flat = self.flat(of);
        let mut rest = flat.get(1..).unwrap_or_default();
        while let Some((first, others)) = rest.split_first() {
            if core(*first) == "i32" && others.first().is_some_and(|of| core(*of) == "i32") {
                text.push_str("(call $text)");
                rest = &others[1..];
            } else {
                text.push_str(any(*first));
                rest = others;
            }
        }
    }

    /// Up to two elements of whole words; of others, none.
    fn list(&mut self, of: &Type, text: &mut String, lists: &mut u32) {
        let words = self.flat(of);
        let size = self.sizes.size(of).size_wasm32();
        let at = LISTS + *lists * 256;
        *lists += 1;
        if size != words.len() * 4 || words.iter().any(|of| core(*of) != "i32") {
            return write!(text, "(i32.const {at}) (i32.const 0)").unwrap();
        }
        let mut guards = String::new();
        self.guards(of, &mut guards);
        text.insert_str(0, &guards);
        for element in 0..2 {
            let start = at as usize + element * size;
            self.push(of, text, lists);
            for word in (0..words.len()).rev() {
                write!(
                    text,
                    "(local.set $w) (i32.store (i32.const {}) (local.get $w))",
                    start + word * 4
                )
                .unwrap();
            }
        }
        write!(text, "(i32.const {at})").unwrap();
        choose(3, text);
    }

    /// Keeps the handles in what lies at `at`; nothing where there can be none.
    fn collect(&mut self, of: &Type, at: &str) -> Option<String> {
        if let Some((number, _)) = self.handle(of) {
            return Some(format!("(call $keep{number} (i32.load {at}))"));
        }
        match self.kind(of)? {
            TypeDefKind::Type(inner) => self.collect(inner, at),
            TypeDefKind::Option(inner) => self.cases(&[None, Some(*inner)], at),
            TypeDefKind::Result(of) => self.cases(&[of.ok, of.err], at),
            TypeDefKind::Variant(of) => {
                self.cases(&of.cases.iter().map(|case| case.ty).collect::<Vec<_>>(), at)
            }
            TypeDefKind::Record(of) => {
                self.fields(&of.fields.iter().map(|field| field.ty).collect::<Vec<_>>(), at)
            }
            TypeDefKind::Tuple(of) => self.fields(&of.types, at),
            TypeDefKind::List(inner) => {
                let first = self.collect(inner, &format!("(i32.load {at})"))?;
                Some(format!("(if (i32.load offset=4 {at}) (then {first}))"))
            }
            _ => None,
        }
    }

    fn fields(&mut self, types: &[Type], at: &str) -> Option<String> {
        let places: Vec<_> = self
            .sizes
            .field_offsets(types)
            .into_iter()
            .map(|(size, of)| (size.size_wasm32(), *of))
            .collect();
        let one = |(offset, of): (usize, Type)| self.collect(&of, &moved(at, offset));
        let found: Vec<_> = places.into_iter().filter_map(one).collect();
        (!found.is_empty()).then(|| found.concat())
    }

    fn cases(&mut self, cases: &[Option<Type>], at: &str) -> Option<String> {
        let offset =
            self.sizes.payload_offset(Int::U8, cases.iter().map(Option::as_ref)).size_wasm32();
        let mut found = String::new();
        for (number, case) in cases.iter().enumerate() {
            if let Some(inner) = case.and_then(|of| self.collect(&of, &moved(at, offset))) {
                let is_it = format!("(i32.eq (i32.load8_u {at}) (i32.const {number}))");
                write!(found, "(if {is_it} (then {inner}))").unwrap();
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

/// What steps put aside.
const LOCALS: &str = "(local $w i32)";

fn moved(at: &str, offset: usize) -> String {
    format!("(i32.add {at} (i32.const {offset}))")
}

fn guard(number: u32) -> String {
    format!("(if (i32.eqz (global.get $n{number})) (then (return)))")
}

fn choose(cases: usize, text: &mut String) {
    write!(text, "(call $below (i32.const {cases}))").unwrap();
}

fn core(of: WasmType) -> &'static str {
    match of {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}

fn any(of: WasmType) -> &'static str {
    match core(of) {
        "i32" => "(call $word)",
        "i64" => "(call $wide)",
        "f32" => "(f32.convert_i64_s (call $wide))",
        _ => "(f64.convert_i64_s (call $wide))",
    }
}

/// The functions that keep the handles of one resource: all that were given, each given away once.
fn handles(number: u32) -> String {
    let table = TABLES + number * HANDLES * 4;
    let entry = "(i32.add (i32.const TABLE) (i32.shl (local.get $at) (i32.const 2)))";
    let last = "(i32.add (i32.const TABLE) (i32.shl (global.get $nN) (i32.const 2)))";
    format!(
        "(global $nN (mut i32) (i32.const 0))
        (func $pickN (result i32)
          (if (i32.eqz (global.get $nN)) (then (return (i32.const 0))))
          (call $below (global.get $nN)))
        (func $peekN (result i32) (local $at i32)
          (local.set $at (call $pickN))
          (i32.load {entry}))
        (func $takeN (result i32) (local $at i32) (local $it i32)
          (if (i32.eqz (global.get $nN)) (then (return (i32.const 0))))
          (local.set $at (call $pickN))
          (local.set $it (i32.load {entry}))
          (global.set $nN (i32.sub (global.get $nN) (i32.const 1)))
          (i32.store {entry} (i32.load {last}))
          (local.get $it))
        (func $keepN (param $it i32)
          (if (i32.ge_u (global.get $nN) (i32.const {most})) (then (return)))
          (i32.store {last} (local.get $it))
          (global.set $nN (i32.add (global.get $nN) (i32.const 1))))\n",
        most = HANDLES - 1,
    )
    .replace("TABLE", &table.to_string())
    .replace("$nN", &format!("$n{number}"))
    .replace("pickN", &format!("pick{number}"))
    .replace("peekN", &format!("peek{number}"))
    .replace("takeN", &format!("take{number}"))
    .replace("keepN", &format!("keep{number}"))
}

/// The table of texts at 2048, and the texts behind it.
fn data(texts: &[&str]) -> String {
    let escaped =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:02x}")).collect::<String>();
    let (mut table, mut all) = (Vec::<u8>::new(), Vec::<u8>::new());
    let start = 2_048 + texts.len() as u32 * 8;
    for text in texts {
        table.extend((start + all.len() as u32).to_le_bytes());
        table.extend((text.len() as u32).to_le_bytes());
        all.extend(text.as_bytes());
    }
    table.extend(all);
    assert!(table.len() < 6_144, "the texts do not fit");
    format!("(data (i32.const 2048) \"{}\"))", escaped(&table))
}
