//! The JSON schemas of the tools' inputs. They are derived from the types by the tests and committed, so that a Worker does not
//! contain the code that derives them.

use serde_json::{Map, Value};

/// The schemas of a family.
pub(super) struct Schemas(Map<String, Value>);

impl Schemas {
    /// Parses a committed file: an object with the schemas by the names of the tools.
    pub(super) fn parse(committed: &str) -> Self {
        Schemas(
            serde_json::from_str(committed)
                .expect("a committed file, which the tests compare with the types"),
        )
    }

    /// Returns the schema of a tool. The tests compare the file with all tools.
    pub(super) fn schema_of(&self, name: &str) -> Value {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
pub(super) mod derived {
    //! Derives schemas from types.

    use std::path::Path;

    use schemars::generate::SchemaSettings;
    use schemars::transform::{Transform, transform_subschemas};
    use schemars::{JsonSchema, Schema};
    use serde_json::{Map, Value};

    /// Compares the schemas of a family with its committed file, or writes that with `KOZE_BLESS`.
    pub(in crate::tool) fn check_committed(family: &str, schemas: &Map<String, Value>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tool").join(family).join("schemas.json");
        let text = serde_json::to_string_pretty(schemas).unwrap() + "\n";
        if std::env::var_os("KOZE_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{family}/schemas.json differs from the types: run `KOZE_BLESS=1 cargo test -p koze-core --lib schemas`"
        );
    }

    /// Returns the schema of a type without references, which models do not follow.
    pub(in crate::tool) fn generate_schema<T: JsonSchema>() -> Value {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = settings.with_transform(Plain).into_generator().into_root_schema_for::<T>();
        for key in ["title", "description"] {
            schema.remove(key);
        }
        schema.to_value()
    }

    /// Removes what does not help a model: integer formats that the ranges already express, and the null of optional keys.
    #[derive(Debug, Clone)]
    struct Plain;

    impl Transform for Plain {
        fn transform(&mut self, schema: &mut Schema) {
            if matches!(schema.get("format").and_then(Value::as_str), Some("uint64" | "int64")) {
                schema.remove("format");
            }
            transform_subschemas(self, schema);
        }
    }
}
