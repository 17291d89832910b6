//! The services of one class, addressed by key.

use std::fmt;
use std::marker::PhantomData;

/// The Durable Object class of a service in a container, with its names in the wrangler configuration.
///
/// `#[container]` implements this trait.
pub trait ContainerClass {
    /// The Durable Object binding in the wrangler configuration: `WORDPRESS_CONTAINER`.
    const BINDING: &'static str;
    /// The class that the Worker's entry point exports, which is the name of the struct: `WordpressContainer`.
    const CLASS: &'static str;
    /// The container application that the first build creates: `wordpress-container`. As for
    /// [`SandboxClass::CONTAINER`](crate::SandboxClass::CONTAINER), `koze.lock` has the name of an existing one.
    const CONTAINER: &'static str;
    /// The file that declares it, relative to the package, with `/`. Empty if the compiler does not know it.
    const SOURCE: &'static str;
}

/// The services of one class, one for each key.
///
/// The generated `Env` has one for each container file.
pub struct Services<C> {
    env: worker::Env,
    class: PhantomData<fn() -> C>,
}

impl<C: ContainerClass> Services<C> {
    /// Creates the namespace. The binding is looked up when you request a service.
    pub fn new(env: &worker::Env) -> Self {
        Services { env: env.clone(), class: PhantomData }
    }

    /// Returns the service with this key. The same key always returns the same container.
    ///
    /// The container starts with the first request. The key is the only boundary between services of one class, so treat
    /// it like a tenant ID.
    ///
    /// # Errors
    /// If the Worker has no binding [`ContainerClass::BINDING`]: run `koze build` and deploy again.
    pub fn get(&self, key: &str) -> worker::Result<Service<C>> {
        let namespace = self.env.durable_object(C::BINDING)?;
        Ok(Service { namespace, key: key.to_owned(), class: PhantomData })
    }
}

impl<C> Clone for Services<C> {
    fn clone(&self) -> Self {
        Services { env: self.env.clone(), class: PhantomData }
    }
}

impl<C: ContainerClass> fmt::Debug for Services<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Services").field(&C::BINDING).finish()
    }
}

/// One service in a container, addressed by its key.
///
/// ```no_run
/// # async fn example(env: worker::Env, request: worker::Request) -> worker::Result<worker::Response> {
/// # struct WordpressContainer;
/// # impl koze::ContainerClass for WordpressContainer {
/// #     const BINDING: &'static str = "WORDPRESS_CONTAINER";
/// #     const CLASS: &'static str = "WordpressContainer";
/// #     const CONTAINER: &'static str = "wordpress-container";
/// #     const SOURCE: &'static str = "";
/// # }
/// let services = koze::Services::<WordpressContainer>::new(&env);
/// services.get("user-42")?.fetch(request).await
/// # }
/// ```
pub struct Service<C> {
    namespace: worker::ObjectNamespace,
    key: String,
    class: PhantomData<fn() -> C>,
}

impl<C: ContainerClass> Service<C> {
    /// Forwards a request to the service, and returns its response, whose body may be a stream and which may be a
    /// `WebSocket`. Starts the container if it sleeps.
    ///
    /// While the container cannot start, the response has the status 503 and a header `retry-after`; if the service does
    /// not answer, the status is 502.
    ///
    /// # Errors
    /// If the platform does not reach the Durable Object.
    pub async fn fetch(&self, request: worker::Request) -> worker::Result<worker::Response> {
        // A new stub each time, because a stub that has lost its object stays broken.
        self.namespace.get_by_name(&self.key)?.fetch_with_request(request).await
    }
}

impl<C> Clone for Service<C> {
    fn clone(&self) -> Self {
        Service { namespace: self.namespace.clone(), key: self.key.clone(), class: PhantomData }
    }
}

impl<C: ContainerClass> fmt::Debug for Service<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("class", &C::CLASS).field("key", &self.key).finish_non_exhaustive()
    }
}
