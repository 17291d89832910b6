//! What happens to a project, and the strategy that makes it up.

use proptest::collection::vec;
use proptest::prelude::*;

/// One thing that happens. Small numbers choose among what there is at that time, so that any part of a history is a
/// history too, and a failing one shrinks.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A new sandbox file.
    Add { file: u8, class: u8, attributes: u8 },
    /// A file gets another name or directory, its class as it was.
    Move { which: u8, file: u8 },
    /// The struct gets another name; `said` adds `renamed_from`.
    RenameClass { which: u8, class: u8, said: bool },
    /// The struct gets another name and the file as well.
    RenameBoth { which: u8, class: u8, file: u8, said: bool },
    /// `renamed_from` goes; where it is not, one that never was comes.
    RenamedFrom { which: u8 },
    /// A file goes.
    Delete { which: u8 },
    /// A file that went comes back.
    Restore { which: u8 },
    /// The attribute's other keys change.
    Attributes { which: u8, attributes: u8 },
    /// A named environment comes, without a list of its own or with one.
    AddEnvironment { own: bool },
    /// An environment and its Worker go.
    RemoveEnvironment { which: u8 },
    /// An environment that inherited the list of classes gets a copy of its own.
    OwnList { which: u8 },
    /// `[package.metadata.koze] environments` names some, or goes.
    Restrict { which: u8 },
    /// The user edits the configuration.
    Hand { kind: u8, place: u8 },
    /// `koze build`, and whatever it asks for until it is content.
    Build { way: u8 },
    /// `koze build --check` or `--dry-run`, or a `koze remove` that is only looked at.
    Look { kind: u8 },
    /// `koze remove`: which of the sandboxes that are gone, and what becomes of their storage.
    Remove { which: u8, delete: bool, by_class: bool },
    /// A deployment of the top level or of an environment, if the project is in step.
    Deploy { which: u8 },
    /// The last build is taken back, as version control would.
    Revert,
    /// `koze.lock` is lost.
    LoseLock,
}

/// A history: how the configuration looked at first, and what happened.
pub(crate) type History = (u16, Vec<Op>);

pub(crate) fn history() -> impl Strategy<Value = History> {
    // A few sandboxes first: without any, most of what can happen does not.
    (any::<u16>(), vec(add(), 1..4), vec(op(), 6..30))
        .prop_map(|(dice, first, then)| (dice, [first, then].concat()))
}

fn add() -> impl Strategy<Value = Op> {
    let attributes = any::<u8>();
    (0..12_u8, 0..12_u8, attributes).prop_map(|(file, class, attributes)| Op::Add { file, class, attributes })
}

fn op() -> impl Strategy<Value = Op> {
    let n = || 0..12_u8;
    prop_oneof![
        4 => add(),
        2 => (n(), n()).prop_map(|(which, file)| Op::Move { which, file }),
        6 => (n(), n(), any::<bool>()).prop_map(|(which, class, said)| Op::RenameClass { which, class, said }),
        2 => (n(), n(), n(), any::<bool>())
            .prop_map(|(which, class, file, said)| Op::RenameBoth { which, class, file, said }),
        1 => n().prop_map(|which| Op::RenamedFrom { which }),
        3 => n().prop_map(|which| Op::Delete { which }),
        1 => n().prop_map(|which| Op::Restore { which }),
        2 => (n(), any::<u8>()).prop_map(|(which, attributes)| Op::Attributes { which, attributes }),
        2 => any::<bool>().prop_map(|own| Op::AddEnvironment { own }),
        1 => n().prop_map(|which| Op::RemoveEnvironment { which }),
        2 => n().prop_map(|which| Op::OwnList { which }),
        3 => n().prop_map(|which| Op::Restrict { which }),
        3 => (n(), any::<u8>()).prop_map(|(kind, place)| Op::Hand { kind, place }),
        10 => any::<u8>().prop_map(|way| Op::Build { way }),
        1 => n().prop_map(|kind| Op::Look { kind }),
        3 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(which, delete, by_class)| Op::Remove { which, delete, by_class }),
        4 => n().prop_map(|which| Op::Deploy { which }),
        1 => Just(Op::Revert),
        1 => Just(Op::LoseLock),
    ]
}
