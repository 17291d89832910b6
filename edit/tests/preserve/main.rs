//! Checks that edits change exactly what they should, for any text and any batch of edits.

use koze_edit::Format;
use proptest::prelude::*;

mod compare;
mod corpus;
mod edits;
mod generate;
mod input;
mod property;
mod seeds;

use generate::*;
use property::*;
use seeds::*;

proptest! {
    #[test]
    fn jsonc_edits_match_the_model(root in object(), mut dice in dice(), seeds in seeds()) {
        check_edits(Format::Jsonc, &jsonc(&root, &mut dice), &root, &seeds);
    }

    #[test]
    fn jsonc_pushes_only_insert(root in object(), mut dice in dice(), seeds in seeds()) {
        check_pushes(Format::Jsonc, &jsonc(&root, &mut dice), &root, &seeds);
    }

    #[test]
    fn toml_edits_match_the_model(root in object(), mut dice in dice(), seeds in seeds()) {
        check_edits(Format::Toml, &toml(&root, &mut dice), &root, &seeds);
    }

    #[test]
    fn toml_pushes_only_insert(root in object(), mut dice in dice(), seeds in seeds()) {
        check_pushes(Format::Toml, &toml(&root, &mut dice), &root, &seeds);
    }
}
