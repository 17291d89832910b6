//! The macro that defines a table of rules.

/// Defines an enum of rules, with their codes, levels, messages and help, from one list.
///
/// A crate with its own rules lists them in its own table. A table that begins with `include Variant(Other);` also
/// contains the rules of another one, in that variant.
///
/// An entry consists of a documentation sentence, which `koze explain` prints, the code, the level, the name and
/// fields, the message, the help, why there is such a rule, and an example that breaks it.
///
/// ```
/// koze_model::rule_table! {
///     /// What can be wrong with a door.
///     pub enum Rule {
///         include Model(koze_model::Rule);
///
///         /// A door is locked.
///         "K999" Error Locked { door: String }
///             format!("`{door}` is locked")
///             => "find the key",
///             why "A locked door lets nobody in.",
///             eg "a door, at night";
///     }
/// }
///
/// let rule = Rule::Locked { door: "front".to_owned() };
/// assert_eq!((rule.code(), rule.message().as_str()), ("K999", "`front` is locked"));
/// assert_eq!(Rule::all().len(), koze_model::Rule::all().len() + 1);
/// ```
#[macro_export]
macro_rules! rule_table {
    (
        $(#[doc = $about:expr])*
        pub enum $rule:ident {
            $( include $other:ident($others:ty); )?
            $(
                $(#[doc = $doc:expr])*
                $code:literal $level:ident $name:ident { $($field:ident : $ty:ty),* $(,)? }
                $message:expr => $help:expr, why $why:literal, eg $example:literal;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "a field's meaning is its place in the message beside it")]
        pub enum $rule {
            $( $other($others), )?
            $( $(#[doc = $doc])* $name { $($field: $ty),* }, )*
        }

        impl $rule {
            /// Returns the stable code: `K010`.
            pub fn code(&self) -> &'static str {
                match self {
                    $( $rule::$other(rule) => rule.code(), )?
                    $( $rule::$name { .. } => $code, )*
                }
            }

            /// Returns whether it is an error or a warning.
            pub fn level(&self) -> $crate::rules::Level {
                match self {
                    $( $rule::$other(rule) => rule.level(), )?
                    $( $rule::$name { .. } => $crate::rules::Level::$level, )*
                }
            }

            /// Returns what is wrong, in one sentence without a full stop.
            #[allow(unused_variables, reason = "a field may stand in the help alone")]
            pub fn message(&self) -> String {
                match self {
                    $( $rule::$other(rule) => rule.message(), )?
                    $( $rule::$name { $($field),* } => $message.to_string(), )*
                }
            }

            /// Returns what would be right, and the next step.
            #[allow(unused_variables, reason = "a field may stand in the message alone")]
            pub fn help(&self) -> String {
                match self {
                    $( $rule::$other(rule) => rule.help(), )?
                    $( $rule::$name { $($field),* } => $help.to_string(), )*
                }
            }

            /// Returns every rule, in the order of the codes.
            pub fn all() -> Vec<$crate::rules::Explained> {
                let own = [$( $crate::rules::Explained {
                    code: $code,
                    level: $crate::rules::Level::$level,
                    meaning: [$($doc),*].concat().trim().to_owned(),
                    why: $why,
                    example: $example,
                }, )*];
                let mut all = Vec::from(own);
                $( all.extend(<$others>::all()); )?
                all.sort_by_key(|rule| rule.code);
                all
            }
        }

        $(
            impl From<$others> for $rule {
                fn from(rule: $others) -> Self {
                    $rule::$other(rule)
                }
            }
        )?
    };
}
