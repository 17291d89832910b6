//! Adds fuel to a module: a global that every iteration of a loop lowers. Below zero the module traps.
//!
//! A module runs longer than some constant time only in loops, in recursion, which ends with the stack, and when it copies
//! or fills much memory at once, which lowers the fuel by what it moves. So the fuel bounds everything in it. The engine's
//! own interrupts do not: `'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')` runs for hours without asking whether its time
//! is over.
//!
//! Everything else stays as it is, also the order of the functions: the module compresses best with that of its linker.

use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ExportKind, ExportSection, Function, GlobalSection, GlobalType,
    Instruction, Module, ValType,
};
use wasmparser::{
    CustomSectionReader, Export, ExportSectionReader, FunctionBody, GlobalSectionReader, Parser,
};

use crate::Result;

/// What a method of [`Reencode`] returns.
type Reencoded = std::result::Result<(), Error<Infallible>>;

/// The name of the global.
const FUEL: &str = "fuel";

/// The bytes that are moved in the time of a short loop's iteration: 2 to the power of this.
const BYTES: i64 = 4;

/// Returns the module with fuel, and without custom sections and all exports but these: the linker exports each function that
/// Rust defines for C, too.
pub(super) fn add(module: &[u8], exports: &[&str]) -> Result<Vec<u8>> {
    let mut fueled = Module::new();
    Fueling { exports, fuel: 0, length: 0 }
        .parse_core_module(&mut fueled, Parser::new(0), module)
        .map_err(|error| format!("the engine is no module: {error}"))?;
    Ok(fueled.finish())
}

/// The exports that it keeps, and the globals that it adds, by index. The module imports none.
struct Fueling<'a> {
    exports: &'a [&'a str],
    fuel: u32,
    /// The length of what is moved, which is the last operand.
    length: u32,
}

impl Fueling<'_> {
    /// The instructions at the start of each iteration.
    fn iteration(&self) -> [Instruction<'static>; 10] {
        [
            Instruction::GlobalGet(self.fuel),
            Instruction::I64Const(1),
            Instruction::I64Sub,
            Instruction::GlobalSet(self.fuel),
            Instruction::GlobalGet(self.fuel),
            Instruction::I64Const(0),
            Instruction::I64LtS,
            Instruction::If(BlockType::Empty),
            Instruction::Unreachable,
            Instruction::End,
        ]
    }

    /// The instructions before memory is moved.
    fn moving(&self) -> [Instruction<'static>; 9] {
        [
            Instruction::GlobalSet(self.length),
            Instruction::GlobalGet(self.fuel),
            Instruction::GlobalGet(self.length),
            Instruction::I64ExtendI32U,
            Instruction::I64Const(BYTES),
            Instruction::I64ShrU,
            Instruction::I64Sub,
            Instruction::GlobalSet(self.fuel),
            Instruction::GlobalGet(self.length),
        ]
    }
}

fn append(function: &mut Function, instructions: &[Instruction<'_>]) {
    for instruction in instructions {
        function.instruction(instruction);
    }
}

impl Reencode for Fueling<'_> {
    type Error = Infallible;

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Reencoded {
        utils::parse_global_section(self, globals, section)?;
        let mut add = |val_type, value: &ConstExpr| {
            globals.global(GlobalType { val_type, mutable: true, shared: false }, value);
            globals.len() - 1
        };
        self.fuel = add(ValType::I64, &ConstExpr::i64_const(0));
        self.length = add(ValType::I32, &ConstExpr::i32_const(0));
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Reencoded {
        utils::parse_export_section(self, exports, section)?;
        exports.export(FUEL, ExportKind::Global, self.fuel);
        Ok(())
    }

    fn parse_export(&mut self, exports: &mut ExportSection, export: Export<'_>) -> Reencoded {
        if self.exports.contains(&export.name) {
            utils::parse_export(self, exports, export)?;
        }
        Ok(())
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody<'_>) -> Reencoded {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let instruction = self.parse_instruction(&mut reader)?;
            if matches!(instruction, Instruction::MemoryCopy { .. } | Instruction::MemoryFill(_)) {
                append(&mut function, &self.moving());
            }
            function.instruction(&instruction);
            if matches!(instruction, Instruction::Loop(_)) {
                append(&mut function, &self.iteration());
            }
        }
        code.function(&function);
        Ok(())
    }

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader<'_>) -> Reencoded {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{FunctionSection, MemorySection, MemoryType, TypeSection};
    use wasmparser::Payload;

    use super::*;

    /// A module with one function, one global, and names that only the linker needs.
    fn module(instructions: &[Instruction<'_>]) -> Vec<u8> {
        let mut module = Module::new();
        let mut types = TypeSection::new();
        types.ty().function([ValType::I32], []);
        module.section(&types).section(FunctionSection::new().function(0));
        let memory =
            MemoryType { minimum: 1, maximum: Some(1), memory64: false, shared: false, page_size_log2: None };
        module.section(MemorySection::new().memory(memory));
        let mut globals = GlobalSection::new();
        globals.global(
            GlobalType { val_type: ValType::I32, mutable: true, shared: false },
            &ConstExpr::i32_const(1),
        );
        module.section(&globals);
        let mut exports = ExportSection::new();
        exports.export("f", ExportKind::Func, 0).export("__heap_base", ExportKind::Global, 0);
        module.section(&exports);
        let mut function = Function::new([]);
        append(&mut function, instructions);
        function.instruction(&Instruction::End);
        module.section(CodeSection::new().function(&function));
        module.finish()
    }

    /// Returns the function and the exports of a module with fuel, after validation.
    fn fueled(instructions: &[Instruction<'_>]) -> (Vec<String>, Vec<String>) {
        let module = add(&module(instructions), &["f"]).unwrap();
        wasmparser::validate(&module).unwrap();
        let (mut operators, mut exports) = (Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(&module) {
            match payload.unwrap() {
                Payload::ExportSection(section) => {
                    exports = section.into_iter().map(|export| export.unwrap().name.to_owned()).collect();
                }
                Payload::CodeSectionEntry(body) => {
                    let reader = body.get_operators_reader().unwrap();
                    operators = reader.into_iter().map(|operator| name(&operator.unwrap())).collect();
                }
                _ => {}
            }
        }
        (operators, exports)
    }

    fn name(operator: &wasmparser::Operator<'_>) -> String {
        let text = format!("{operator:?}");
        text.split([' ', '(']).next().unwrap_or_default().to_owned()
    }

    #[test]
    fn loops_and_moves_burn_fuel() {
        let check = [
            "GlobalGet",
            "I64Const",
            "I64Sub",
            "GlobalSet",
            "GlobalGet",
            "I64Const",
            "I64LtS",
            "If",
            "Unreachable",
            "End",
        ];
        let (looped, exports) = fueled(&[
            Instruction::Loop(BlockType::Empty),
            Instruction::Loop(BlockType::Empty),
            Instruction::Nop,
            Instruction::End,
            Instruction::End,
        ]);
        let expected = [&["Loop"][..], &check, &["Loop"], &check, &["Nop", "End", "End", "End"]].concat();
        assert_eq!(looped, expected);
        assert_eq!(exports, ["f", FUEL]);

        let moved = [
            "GlobalSet",
            "GlobalGet",
            "GlobalGet",
            "I64ExtendI32U",
            "I64Const",
            "I64ShrU",
            "I64Sub",
            "GlobalSet",
            "GlobalGet",
        ];
        let operands = [Instruction::I32Const(0), Instruction::I32Const(0), Instruction::LocalGet(0)];
        let fill = [&operands[..], &[Instruction::MemoryFill(0)]].concat();
        let expected = [&["I32Const", "I32Const", "LocalGet"][..], &moved, &["MemoryFill", "End"]].concat();
        assert_eq!(fueled(&fill).0, expected);
        let copy = [&operands[..], &[Instruction::MemoryCopy { src_mem: 0, dst_mem: 0 }]].concat();
        let expected = [&["I32Const", "I32Const", "LocalGet"][..], &moved, &["MemoryCopy", "End"]].concat();
        assert_eq!(fueled(&copy).0, expected);
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        assert!(add(b"", &[]).unwrap_err().to_string().contains("is no module"));
    }
}
