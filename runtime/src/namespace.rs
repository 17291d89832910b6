use std::fmt;
use std::marker::PhantomData;

use crate::SandboxClass;

/// The sandboxes of one class: as many as there are keys.
///
/// The generated `Env` gives one for each sandbox file.
pub struct Namespace<S> {
    env: worker::Env,
    class: PhantomData<fn() -> S>,
}

impl<S: SandboxClass> Namespace<S> {
    /// The namespace of the class in an environment. The binding is looked up when a sandbox is asked for.
    pub fn new(env: &worker::Env) -> Self {
        Namespace { env: env.clone(), class: PhantomData }
    }

    /// The sandbox with this key: the same key gives the same container, a fresh key a fresh one.
    ///
    /// Nothing is started yet: the container starts with the first call. The key is the only boundary between
    /// sandboxes of one class, so treat it like any identifier of a tenant.
    ///
    /// # Errors
    /// Where the Worker has no binding [`SandboxClass::BINDING`]: run `koze build` and deploy again.
    pub fn get(&self, key: &str) -> worker::Result<Stub<S>> {
        let stub = self.env.durable_object(S::BINDING)?.id_from_name(key)?.get_stub()?;
        Ok(Stub { stub, class: PhantomData })
    }
}

impl<S> Clone for Namespace<S> {
    fn clone(&self) -> Self {
        Namespace { env: self.env.clone(), class: PhantomData }
    }
}

impl<S: SandboxClass> fmt::Debug for Namespace<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespace").field(&S::BINDING).finish()
    }
}

/// One sandbox, addressed by its key.
///
/// Never hand a client's request to the Durable Object's `fetch`: the container's control port answers there.
pub struct Stub<S> {
    stub: worker::Stub,
    class: PhantomData<fn() -> S>,
}

impl<S: SandboxClass> Stub<S> {
    /// The Durable Object's stub, for calls to the class by remote procedure.
    pub fn into_inner(self) -> worker::Stub {
        self.stub
    }
}

impl<S: SandboxClass> fmt::Debug for Stub<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stub").field(&S::CLASS).finish()
    }
}
