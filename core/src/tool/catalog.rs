//! The catalog of tools: the only way to definitions and calls.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use super::dialect::Definition;
use super::{Family, Input, Reply, ToolFamily, unknown_tool};
use crate::error::{Code, Error, Result};
use crate::http;
use crate::journal::Recording;
use crate::maybe_send::MaybeSend;
use crate::profiles::{Profiles, how_to_serve};
use crate::provider::Provider;
use crate::session::Session;
use crate::trace::within;

/// A list of families as a type: a tuple of [`ToolFamily`]s. A Worker contains the code of its own families only.
pub trait Families: 'static {
    /// The families.
    const ALL: &'static [Family];

    /// Returns the names of a family's tools that are the same in every project.
    fn fixed(family: Family) -> &'static [&'static str];

    /// Returns whether a name belongs to a family.
    fn has(family: Family, name: &str) -> bool;

    /// Returns the names of a family's tools over the profiles that serve it.
    fn names(family: Family, profiles: &Profiles) -> Vec<Cow<'static, str>>;

    /// Returns the definitions of a family's tools; none if the family is not in the list.
    fn definitions(family: Family, profiles: &Profiles) -> Vec<Definition>;

    /// Returns the names of the tools with which agents create further tools of a family and change them.
    fn creating(family: Family) -> &'static [&'static str];

    /// Returns whether agents can create further tools of a family.
    fn creates(family: Family) -> bool {
        !Self::creating(family).is_empty()
    }

    /// Returns the definitions of the tools of a family that the agent of a session has created.
    ///
    /// # Errors
    /// The errors of the session's store.
    fn created<P: Provider>(
        family: Family,
        session: &Session<P>,
    ) -> impl Future<Output = Result<Vec<Definition>>> + MaybeSend;

    /// Answers an HTTP request for the snapshots of a session, which workspaces have.
    ///
    /// # Errors
    /// [`http::Refusal`], as the response.
    fn answer_snapshots<P: Provider>(
        session: &Session<P>,
        request: &http::Request,
    ) -> impl Future<Output = std::result::Result<http::Response, http::Refusal>> + MaybeSend;

    /// Calls a tool of a family.
    ///
    /// # Errors
    /// [`Code::UnknownTool`], and the errors of the tool.
    fn call<P: Provider>(
        family: Family,
        session: &Session<P>,
        name: &str,
        input: Input,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend;
}

macro_rules! tuple {
    ($($family:ident),+) => {
        impl<$($family: ToolFamily),+> Families for ($($family,)+) {
            const ALL: &'static [Family] = &[$($family::FAMILY),+];

            fn fixed(family: Family) -> &'static [&'static str] {
                $(if family == $family::FAMILY {
                    return $family::NAMES;
                })+
                &[]
            }

            fn has(family: Family, name: &str) -> bool {
                $(if family == $family::FAMILY {
                    return $family::has(name);
                })+
                false
            }

            fn names(family: Family, profiles: &Profiles) -> Vec<Cow<'static, str>> {
                $(if family == $family::FAMILY {
                    return $family::names(profiles);
                })+
                Vec::new()
            }

            fn definitions(family: Family, profiles: &Profiles) -> Vec<Definition> {
                $(if family == $family::FAMILY {
                    return $family::definitions(profiles);
                })+
                Vec::new()
            }

            fn creating(family: Family) -> &'static [&'static str] {
                $(if family == $family::FAMILY {
                    return $family::CREATING;
                })+
                &[]
            }

            async fn created<Provided: Provider>(
                family: Family,
                session: &Session<Provided>,
            ) -> Result<Vec<Definition>> {
                $(if family == $family::FAMILY {
                    return $family::created(session).await;
                })+
                Ok(Vec::new())
            }

            async fn answer_snapshots<Provided: Provider>(
                session: &Session<Provided>,
                request: &http::Request,
            ) -> std::result::Result<http::Response, http::Refusal> {
                $(if let Some(answered) = $family::answer_snapshots(session, request).await {
                    return answered;
                })+
                Err(http::snapshots::unsupported().into())
            }

            async fn call<Provided: Provider>(
                family: Family,
                session: &Session<Provided>,
                name: &str,
                input: Input,
            ) -> Result<Reply> {
                $(if family == $family::FAMILY {
                    return $family::call(session, name, input).await;
                })+
                Err(unknown_tool(name, &[]))
            }
        }
    };
}
tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);

/// The toolset of a server: tools of one or more families with unique names.
pub struct Catalog<F> {
    families: Vec<Family>,
    of: PhantomData<fn() -> F>,
}

impl<F: Families> Catalog<F> {
    /// Selects the tools of families that the profiles of a project serve. `toolset` is a list of families, separated by
    /// commas. Without it, the toolset is `agent`, or the only family of the project.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the project does not serve a family, if two families have a tool of the same name, or if
    /// there is no toolset and the project has several families without `agent`.
    pub fn select(profiles: &Profiles, toolset: Option<&str>) -> Result<Self> {
        let served: Vec<Family> = F::ALL.iter().copied().filter(|family| profiles.serve(*family)).collect();
        let names = || served.iter().map(|family| family.name()).collect::<Vec<_>>().join(", ");
        let invalid = |message: String| Error::new(Code::InvalidInput, message);
        let Some(toolset) = toolset else {
            return match served[..] {
                _ if served.contains(&Family::Agent) => Self::new([Family::Agent]),
                [only] => Self::new([only]),
                [] => Err(invalid(
                    "the sandboxes of this project serve no tools: set `tools` in an attribute".into(),
                )),
                _ => Err(invalid(format!("this project serves several toolsets: choose one of {}", names()))),
            };
        };
        let asked = toolset.split(',').map(|name| {
            let Some(family) = Family::find(name.trim()) else {
                let all: Vec<&str> = F::ALL.iter().map(|family| family.name()).collect();
                let message = format!("there are no tools `{name}`: the families are {}", all.join(", "));
                return Err(invalid(message));
            };
            if served.contains(&family) {
                return Ok(family);
            }
            let (served, remedy) = (names(), how_to_serve(family));
            Err(invalid(format!(
                "this project does not serve the tools `{family}`: it serves {served}. {remedy}"
            )))
        });
        Self::new(asked.collect::<Result<Vec<_>>>()?)
    }

    /// Creates the catalog of families.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if two families have a tool of the same name.
    pub fn new(families: impl IntoIterator<Item = Family>) -> Result<Self> {
        let mut catalog = Catalog { families: Vec::new(), of: PhantomData };
        for family in families {
            if catalog.families.contains(&family) {
                continue;
            }
            if let Some((other, name)) = catalog.find_conflict(family) {
                let message = format!(
                    "the tools `{other}` and `{family}` cannot be served together: both have `{name}`"
                );
                return Err(Error::new(Code::InvalidInput, message));
            }
            catalog.families.push(family);
        }
        Ok(catalog)
    }

    /// Returns the families.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Returns the definitions of the tools over the profiles of a project.
    pub fn definitions(&self, profiles: &Profiles) -> Vec<Definition> {
        let of = |family: &Family| {
            let profiles = profiles.of(*family)?;
            Some(F::definitions(*family, &profiles))
        };
        self.families.iter().filter_map(of).flatten().collect()
    }

    /// Returns whether agents can create further tools.
    pub fn creates(&self) -> bool {
        self.families.iter().any(|family| F::creates(*family))
    }

    /// Returns whether a call of a tool that succeeds changes the tools that agents have created.
    pub fn changes(&self, tool: &str) -> bool {
        self.families.iter().any(|family| F::creating(*family).contains(&tool))
    }

    /// Returns the definitions of the tools that the agent of a session has created. They change with its calls.
    ///
    /// # Errors
    /// The errors of the session's store.
    pub async fn created<P: Provider>(&self, session: &Session<P>) -> Result<Vec<Definition>> {
        let mut all = Vec::new();
        for family in self.families.iter().filter(|family| F::creates(**family)) {
            all.extend(F::created(*family, session).await?);
        }
        Ok(all)
    }

    /// Calls a tool, and records the call in the provider's journal. The input is a model's: data, whatever it looks like.
    ///
    /// # Errors
    /// [`Code::UnknownTool`], and the errors of the tool.
    pub async fn call<P: Provider>(
        &self,
        session: &Session<P>,
        name: &str,
        input: impl Into<Input>,
    ) -> Result<Reply> {
        let input = input.into();
        let family = self.find_family(name);
        let recording = Recording::start(session, family, name, &input);
        let session = recording.as_ref().map_or_else(|| session.clone(), Recording::session);
        // On the heap, because every layer of futures counts towards the compiler's recursion limit in the programs of users.
        let outcome = Box::pin(self.call_tool(&session, family, name, input)).await;
        if let Some(recording) = recording {
            recording.end(&outcome);
        }
        outcome
    }

    /// Returns the family of a tool.
    fn find_family(&self, name: &str) -> Option<Family> {
        let fixed = self.families.iter().find(|family| F::has(**family, name));
        // Every other name may be that of a created tool.
        let created = || self.families.iter().find(|family| F::creates(**family));
        fixed.or_else(created).copied()
    }

    async fn call_tool<P: Provider>(
        &self,
        session: &Session<P>,
        family: Option<Family>,
        name: &str,
        input: Input,
    ) -> Result<Reply> {
        let Some(family) = family else {
            let profiles = session.profiles();
            let of = |family: &Family| Some(F::names(*family, &profiles.of(*family)?));
            let names: Vec<_> = self.families.iter().filter_map(of).flatten().collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            return Err(unknown_tool(name, &names));
        };
        let session = session.serving(family)?;
        within!(
            "call" { session = session.id().session(), family = family.name(), tool = name },
            F::call(family, &session, name, input)
        )
    }

    /// Returns a family of this catalog that has a tool with the name of one of this family's tools.
    fn find_conflict(&self, family: Family) -> Option<(Family, &'static str)> {
        self.families.iter().find_map(|other| {
            let ours = F::fixed(family).iter().find(|name| F::has(*other, name));
            let name = ours.or_else(|| F::fixed(*other).iter().find(|name| F::has(family, name)))?;
            Some((*other, *name))
        })
    }
}

impl<F> Clone for Catalog<F> {
    fn clone(&self) -> Self {
        Catalog { families: self.families.clone(), of: PhantomData }
    }
}

impl<F> fmt::Debug for Catalog<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Catalog").field(&self.families).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::provider::memory::Memory;
    use crate::provider::{Profile, Size};
    use crate::tool::agent::Agent;
    use crate::{SessionId, ToolResult};

    /// A family with a tool that the agent family has, too, and one that answers in plain text.
    struct Plain;

    impl ToolFamily for Plain {
        const FAMILY: Family = Family::Thread;
        const NAMES: &'static [&'static str] = &["read_file", "ok"];

        fn definitions(profiles: &Profiles) -> Vec<Definition> {
            let of = |name| Definition {
                name: Cow::Borrowed(name),
                ..Agent::definitions(profiles).swap_remove(0)
            };
            Self::NAMES.iter().map(|name| of(name)).collect()
        }

        async fn call<P: Provider>(session: &Session<P>, _: &str, input: Input) -> Result<Reply> {
            let input: Value = input.decode()?;
            session.sandbox(input["sandbox"].as_str().unwrap_or("default")).await?;
            Ok(Reply::text("OK"))
        }
    }

    /// A family without a clash.
    struct Other;

    impl ToolFamily for Other {
        const FAMILY: Family = Family::Workspace;
        const NAMES: &'static [&'static str] = &["other"];

        fn definitions(_: &Profiles) -> Vec<Definition> {
            Vec::new()
        }

        async fn call<P: Provider>(_: &Session<P>, _: &str, _: Input) -> Result<Reply> {
            Ok(Reply::text("other"))
        }
    }

    type Three = (Agent, Plain, Other);

    fn profiles(served: &[(&str, &[Family])]) -> Profiles {
        let profile = |(name, tools): &(&str, &[Family])| Profile {
            tools: tools.to_vec(),
            ..Profile::new(*name, "debian", Size { memory_mib: 1, disk_mb: 1 })
        };
        Profiles::new(served.iter().map(profile).collect(), served[0].0).unwrap()
    }

    fn selected(profiles: &Profiles, toolset: Option<&str>) -> std::result::Result<Vec<Family>, String> {
        let catalog = Catalog::<Three>::select(profiles, toolset);
        catalog.map(|catalog| catalog.families).map_err(|error| error.to_string())
    }

    #[test]
    fn a_toolset_is_selected() {
        use Family::{Agent, Thread, Workspace};
        let all = profiles(&[("a", &[Agent, Thread]), ("b", &[Workspace])]);
        assert_eq!(selected(&all, None), Ok(vec![Agent]));
        assert_eq!(selected(&all, Some("thread")), Ok(vec![Thread]));
        assert_eq!(selected(&all, Some("agent, workspace,agent")), Ok(vec![Agent, Workspace]));
        let clash =
            "invalid_input: the tools `agent` and `thread` cannot be served together: both have `read_file`";
        assert_eq!(selected(&all, Some("agent,thread")), Err(clash.to_owned()));
        assert_eq!(selected(&profiles(&[("a", &[Thread])]), None), Ok(vec![Thread]));
        let several = "invalid_input: this project serves several toolsets: choose one of thread, workspace";
        assert_eq!(selected(&profiles(&[("a", &[Thread, Workspace])]), None), Err(several.to_owned()));
        let absent = "invalid_input: this project does not serve the tools `thread`: it serves agent. Add `thread` to the `tools` of a \
                      `#[sandbox]`, and run `koze build`";
        assert_eq!(selected(&profiles(&[("a", &[Agent])]), Some("thread")), Err(absent.to_owned()));
        let unknown = selected(&all, Some("threads")).unwrap_err();
        assert!(
            unknown.starts_with("invalid_input: there are no tools `threads`: the families are agent, "),
            "{unknown}"
        );
        assert!(selected(&all, Some("")).is_err());
    }

    #[test]
    fn calls_stay_within_the_family() {
        pollster::block_on(async {
            use Family::{Agent, Thread};
            let profiles = profiles(&[("a", &[Agent]), ("t", &[Thread])]);
            let session = SessionId::new("tenant", "session").unwrap();
            let session = Session::new(Memory::new(), session, profiles.clone());
            let agent = Catalog::<Three>::select(&profiles, None).unwrap();
            let thread = Catalog::<Three>::select(&profiles, Some("thread")).unwrap();
            let named = |sandbox: &str| json!({ "sandbox": sandbox, "path": "f" });
            // The default sandbox of a family has a profile that serves it.
            let result = ToolResult::from(thread.call(&session, "ok", named("mine")).await);
            assert_eq!((result.content.as_str(), result.is_error), ("OK", false), "plain text has no quotes");
            let result = ToolResult::from(agent.call(&session, "read_file", named("mine")).await);
            let refused = "unsupported: the sandbox `mine` does not serve the tools `agent`: its image `t` serves thread";
            assert_eq!((result.content.as_str(), result.is_error), (refused, true));
            let result = ToolResult::from(agent.call(&session, "ok", named("mine")).await);
            assert!(
                result.content.starts_with("unknown_tool: unknown tool `ok`: the tools are shell, "),
                "{result:?}"
            );
            let result = ToolResult::from(agent.call(&session, "wirte_file", json!({})).await);
            let near =
                "unknown_tool: unknown tool `wirte_file`: did you mean `write_file`? The tools are shell, ";
            assert!(result.content.starts_with(near), "{result:?}");
            let listed = agent.call(&session, "sandbox_list", json!({})).await.unwrap();
            assert_eq!(ToolResult::from(Ok(listed)).content, r#"{"sandboxes":[]}"#);
        });
    }
}
