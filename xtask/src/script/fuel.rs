//! Adds fuel to a module: a global that every round of a loop lowers. Below zero the module traps.
//!
//! A module runs longer than some constant time only in loops, in recursion, which ends with the stack, and when it copies
//! or fills much memory at once, which lowers the fuel by what it moves. So the fuel bounds everything in it. The engine's
//! own interrupts do not: `'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')` runs for hours without asking whether its time
//! is over.

use walrus::ir::{
    BinaryOp, Instr, InstrSeq, InstrSeqId, Loop, UnaryOp, Value, VisitorMut, dfs_pre_order_mut,
};
use walrus::{ConstExpr, GlobalId, LocalId, Module, ModuleConfig, ValType};

use crate::Result;

/// The name of the global.
const FUEL: &str = "fuel";

/// The bytes that are moved in the time of a short loop's round: 2 to the power of this.
const BYTES: i64 = 4;

/// Returns the module with fuel.
pub(super) fn add(module: &[u8]) -> Result<Vec<u8>> {
    let mut config = ModuleConfig::new();
    config.generate_name_section(false).generate_producers_section(false);
    let mut module = config.parse(module).map_err(|error| format!("the engine is no module: {error}"))?;
    burn(&mut module);
    // What only the linker needs.
    for name in ["__heap_base", "__data_end"] {
        let _ = module.exports.remove(name);
    }
    Ok(module.emit_wasm())
}

fn burn(module: &mut Module) {
    let fuel = module.globals.add_local(ValType::I64, true, false, ConstExpr::Value(Value::I64(0)));
    module.exports.add(FUEL, fuel);
    for (_, function) in module.funcs.iter_local_mut() {
        let length = module.locals.add(ValType::I32);
        let mut places = Places { fuel, length, rounds: Vec::new() };
        let entry = function.entry_block();
        dfs_pre_order_mut(&mut places, function, entry);
        for round in places.rounds {
            function
                .builder_mut()
                .instr_seq(round)
                .global_get_at(0, fuel)
                .const_at(1, Value::I64(1))
                .binop_at(2, BinaryOp::I64Sub)
                .global_set_at(3, fuel)
                .global_get_at(4, fuel)
                .const_at(5, Value::I64(0))
                .binop_at(6, BinaryOp::I64LtS)
                .if_else_at(
                    7,
                    None,
                    |then| {
                        then.unreachable();
                    },
                    |_| (),
                );
        }
    }
}

/// Adds what moving memory burns, and finds the loops of a function.
struct Places {
    fuel: GlobalId,
    /// A local of the function, for the length of what is moved.
    length: LocalId,
    /// The bodies of the loops.
    rounds: Vec<InstrSeqId>,
}

impl VisitorMut for Places {
    fn start_instr_seq_mut(&mut self, sequence: &mut InstrSeq) {
        let (fuel, length) = (self.fuel, self.length);
        let moves = |(_, (instr, _)): &(usize, &(Instr, _))| {
            matches!(instr, Instr::MemoryCopy(_) | Instr::MemoryFill(_))
        };
        let places: Vec<usize> = sequence.instrs.iter().enumerate().filter(moves).map(|(at, _)| at).collect();
        for at in places.into_iter().rev() {
            let place = sequence.instrs[at].1;
            // The length is the last operand.
            let burning: [Instr; 8] = [
                walrus::ir::LocalTee { local: length }.into(),
                walrus::ir::GlobalGet { global: fuel }.into(),
                walrus::ir::LocalGet { local: length }.into(),
                walrus::ir::Unop { op: UnaryOp::I64ExtendUI32 }.into(),
                walrus::ir::Const { value: Value::I64(BYTES) }.into(),
                walrus::ir::Binop { op: BinaryOp::I64ShrU }.into(),
                walrus::ir::Binop { op: BinaryOp::I64Sub }.into(),
                walrus::ir::GlobalSet { global: fuel }.into(),
            ];
            sequence.instrs.splice(at..at, burning.map(|instr| (instr, place)));
        }
    }

    fn visit_loop_mut(&mut self, instr: &mut Loop) {
        self.rounds.push(instr.seq);
    }
}

#[cfg(test)]
mod tests {
    use walrus::{FunctionBuilder, MemoryId};

    use super::*;

    fn instructions(function: impl FnOnce(&mut FunctionBuilder, LocalId, MemoryId)) -> Vec<String> {
        let mut module = Module::default();
        let length = module.locals.add(ValType::I32);
        let memory = module.memories.add_local(false, false, 1, Some(1), None);
        let mut builder = FunctionBuilder::new(&mut module.types, &[ValType::I32], &[]);
        function(&mut builder, length, memory);
        let id = builder.finish(vec![length], &mut module.funcs);
        module.exports.add("f", id);
        let module = Module::from_buffer(&add(&module.emit_wasm()).unwrap()).unwrap();
        let (_, function) = module.funcs.iter_local().next().unwrap();
        let mut all = All(Vec::new());
        walrus::ir::dfs_in_order(&mut all, function, function.entry_block());
        assert!(module.exports.iter().any(|export| export.name == FUEL));
        all.0
    }

    struct All(Vec<String>);

    impl<'a> walrus::ir::Visitor<'a> for All {
        fn visit_instr(&mut self, instr: &'a Instr, _: &'a walrus::ir::InstrLocId) {
            let text = format!("{instr:?}");
            self.0.push(text.split([' ', '(']).next().unwrap_or_default().to_owned());
        }
    }

    #[test]
    fn loops_and_moves_burn_fuel() {
        let check = [
            "GlobalGet",
            "Const",
            "Binop",
            "GlobalSet",
            "GlobalGet",
            "Const",
            "Binop",
            "IfElse",
            "Unreachable",
        ];
        let looped = instructions(|builder, length, _| {
            builder.func_body().loop_(None, |outer| {
                outer.loop_(None, |inner| {
                    inner.local_get(length).drop();
                });
            });
        });
        let expected: Vec<&str> = ["Loop"]
            .into_iter()
            .chain(check)
            .chain(["Loop"])
            .chain(check)
            .chain(["LocalGet", "Drop"])
            .collect();
        assert_eq!(looped, expected);
        let filled = instructions(|builder, length, memory| {
            builder.func_body().i32_const(0).i32_const(0).local_get(length).memory_fill(memory);
        });
        let burnt = ["LocalTee", "GlobalGet", "LocalGet", "Unop", "Const", "Binop", "Binop", "GlobalSet"];
        let expected: Vec<&str> =
            ["Const", "Const", "LocalGet"].into_iter().chain(burnt).chain(["MemoryFill"]).collect();
        assert_eq!(filled, expected);
    }
}
