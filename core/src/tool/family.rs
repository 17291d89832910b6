//! Families of tools.

use std::borrow::Cow;
use std::future::Future;

use super::dialect::Definition;
use super::{Input, Reply};
use crate::error::Result;
use crate::http;
use crate::maybe_send::MaybeSend;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::session::Session;

pub use koze_protocol::Family;

/// The tools of a family.
pub trait ToolFamily: 'static {
    /// The family.
    const FAMILY: Family;
    /// The names of its tools that are the same in every project, in the order in which a model reads them.
    const NAMES: &'static [&'static str];
    /// The names of those with which an agent creates further tools and changes them. None if it cannot.
    const CREATING: &'static [&'static str] = &[];

    /// Returns whether a name belongs to the family. A family whose names depend on the project reserves a prefix.
    fn has(name: &str) -> bool {
        Self::NAMES.contains(&name)
    }

    /// Returns the names of its tools over `profiles`, which are those that serve the family.
    fn names(profiles: &Profiles) -> Vec<Cow<'static, str>> {
        let _ = profiles;
        Self::NAMES.iter().map(|name| Cow::Borrowed(*name)).collect()
    }

    /// Returns the definitions of its tools. `profiles` are those that serve the family.
    fn definitions(profiles: &Profiles) -> Vec<Definition>;

    /// Returns the definitions of the tools that the agent of a session has created.
    ///
    /// # Errors
    /// The errors of the session's store.
    fn created<P: Provider>(
        session: &Session<P>,
    ) -> impl Future<Output = Result<Vec<Definition>>> + MaybeSend {
        let _ = session;
        async { Ok(Vec::new()) }
    }

    /// Answers an HTTP request for the snapshots of a session. Returns `None` if the family has none.
    fn answer_snapshots<P: Provider>(
        session: &Session<P>,
        request: &http::Request,
    ) -> impl Future<Output = Option<std::result::Result<http::Response, http::Refusal>>> + MaybeSend {
        let _ = (session, request);
        async { None }
    }

    /// Calls one of its tools.
    ///
    /// # Errors
    /// [`Code::UnknownTool`](crate::Code::UnknownTool), and the errors of the tool.
    fn call<P: Provider>(
        session: &Session<P>,
        name: &str,
        input: Input,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend;
}

/// Implements [`ToolFamily`] for a type from the list of its tools and the file with the schemas of their inputs. `feature`
/// lists those that need a feature of this crate. `with` completes the definitions.
macro_rules! family {
    (
        $family:ident: $($tool:ident),* $(,)?;
        $(feature $feature:literal: $($optional:ident),* $(,)?;)?
        schemas $schemas:literal;
        with $with:expr
    ) => {
        impl $crate::tool::ToolFamily for $family {
            const FAMILY: $crate::tool::Family = $crate::tool::Family::$family;
            const NAMES: &'static [&'static str] = &[
                $(<$tool as $crate::tool::Tool>::NAME,)*
                $($(#[cfg(feature = $feature)] <$optional as $crate::tool::Tool>::NAME,)*)?
            ];

            fn definitions(profiles: &$crate::profiles::Profiles) -> Vec<$crate::tool::dialect::Definition> {
                let schemas = $crate::tool::schema::Schemas::parse(include_str!($schemas));
                let mut definitions = Vec::from([
                    $($crate::tool::dialect::Definition::for_tool::<$tool>(&schemas),)*
                    $($(#[cfg(feature = $feature)] $crate::tool::dialect::Definition::for_tool::<$optional>(&schemas),)*)?
                ]);
                $with(&mut definitions, profiles);
                definitions
            }

            async fn call<P: $crate::provider::Provider>(
                session: &$crate::session::Session<P>,
                name: &str,
                input: $crate::tool::Input,
            ) -> $crate::error::Result<$crate::tool::Reply> {
                match name {
                    $(<$tool as $crate::tool::Tool>::NAME => {
                        $crate::tool::call::<$tool, P>(session, input).await
                    })*
                    $($(
                        #[cfg(feature = $feature)]
                        <$optional as $crate::tool::Tool>::NAME => {
                            $crate::tool::call::<$optional, P>(session, input).await
                        }
                    )*)?
                    _ => Err($crate::tool::unknown_tool(name, Self::NAMES)),
                }
            }
        }

        #[cfg(test)]
        mod schemas {
            use $crate::tool::schema::derived::{check_committed, generate_schema};

            #[test]
            fn the_committed_schemas_are_those_of_the_types() {
                let schemas = [
                    $((
                        <super::$tool as $crate::tool::Tool>::NAME.to_owned(),
                        generate_schema::<<super::$tool as $crate::tool::Tool>::Input>(),
                    ),)*
                    $($(
                        #[cfg(feature = $feature)]
                        (
                            <super::$optional as $crate::tool::Tool>::NAME.to_owned(),
                            generate_schema::<<super::$optional as $crate::tool::Tool>::Input>(),
                        ),
                    )*)?
                ];
                check_committed(<super::$family as $crate::tool::ToolFamily>::FAMILY.name(), &schemas.into_iter().collect());
            }
        }
    };
}
pub(super) use family;
