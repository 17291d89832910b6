//! Answers lookups of names, without resolving them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::net::UdpSocket;

use super::names::Names;
use crate::http::Refusal;
use crate::reach::{Reach, is_near};
use koze_core::egress::{Host, Refused};
use koze_state::Reached;

/// The maximum length of a query in bytes.
const MAX_QUERY: usize = 4096;
/// How long an answer is valid, in seconds. An address stays the same while the sandbox runs.
const TTL: u32 = 60;
/// Programs look up several types of records at once. Within this time, they are one attempt in the journal.
const SAME_LOOKUP: Duration = Duration::from_secs(1);

/// How long to wait after an error of the socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers the lookups that a socket receives, one after another, so that a flood of them costs no memory.
pub async fn serve_lookups(socket: UdpSocket, reach: Arc<Reach>, names: Arc<Names>) {
    let mut resolver = Resolver { reach, names, last: None };
    let mut query = [0; MAX_QUERY];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut query).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Some(answer) = resolver.answer(&query[..length]).await {
            // A program that does not read its answers waits for none.
            let _ = socket.try_send_to(&answer, from);
        }
    }
}

struct Resolver {
    reach: Arc<Reach>,
    names: Arc<Names>,
    /// The last name that was refused, and when.
    last: Option<(Host, Instant)>,
}

impl Resolver {
    /// Returns the answer to a query, if it is one.
    async fn answer(&mut self, query: &[u8]) -> Option<Vec<u8>> {
        let mut packet =
            Packet::parse(query).ok().filter(|query| !query.has_flags(PacketFlag::RESPONSE))?.into_reply();
        let code = self.fill(&mut packet).await;
        *packet.rcode_mut() = code;
        packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
        packet.build_bytes_vec_compressed().ok()
    }

    /// Adds the records of an answer, and returns its code.
    async fn fill(&mut self, packet: &mut Packet<'_>) -> RCODE {
        let [question] = &packet.questions[..] else { return RCODE::FormatError };
        let is_internet = matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY);
        if packet.opcode() != OPCODE::StandardQuery || !is_internet {
            return RCODE::NotImplemented;
        }
        let (asked, kind) = (question.qname.clone(), question.qtype);
        let Some(Host::Name(name)) = Host::parse(&asked.to_string()) else { return RCODE::NameError };
        // Nobody asks for names of addresses to reach them.
        if name.rsplit('.').next() == Some("arpa") {
            return RCODE::NameError;
        }
        let host = Host::Name(name);
        if is_near(&host) {
            return RCODE::NameError;
        }
        if let Err(refused) = self.reach.policy.judge_name(&host) {
            self.refuse(host, refused).await;
            return RCODE::NameError;
        }
        if !matches!(kind, QTYPE::TYPE(TYPE::A) | QTYPE::ANY) {
            return RCODE::NoError;
        }
        let Some(address) = self.names.address_of(&host.to_string()) else {
            let text = format!(
                "{host} gets no address, because this sandbox has looked up too many names: use the proxy in `HTTPS_PROXY`"
            );
            self.refuse(host, Refused { rule: "too many names".to_owned(), text }).await;
            return RCODE::ServerFailure;
        };
        packet.answers.push(ResourceRecord::new(asked, CLASS::IN, TTL, RData::A(A::from(address))));
        RCODE::NoError
    }

    /// Records that a name is refused.
    async fn refuse(&mut self, host: Host, refused: Refused) {
        let Refused { rule, text } = refused;
        if let Some(refusals) = &self.reach.refusals {
            refusals.add(host.to_string(), 0, &Refusal::new(StatusCode::FORBIDDEN, text));
        }
        let now = Instant::now();
        let is_known = |(last, at): &(Host, Instant)| *last == host && now - *at < SAME_LOOKUP;
        if self.last.as_ref().is_some_and(is_known) {
            return;
        }
        let mut entry = self.reach.journal.entry(&host.to_string(), 0);
        self.reach.journal.refuse(&mut entry, &format!("{}{rule}", Reached::LOOKUP)).await;
        self.last = Some((host, now));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use koze_core::egress::{DeclaredPolicy, Policy};
    use koze_state::{EgressJournal, read_egress};
    use simple_dns::{Name, Question};

    use super::*;
    use crate::Internet;

    fn resolver(state: &std::path::Path, allowed: &[&str]) -> Resolver {
        let declared = DeclaredPolicy {
            internet: allowed.is_empty(),
            allowed_hosts: allowed.iter().map(|&host| host.to_owned()).collect(),
            denied_hosts: vec!["denied.example".to_owned(), "GET part.example/x".to_owned()],
            credentials: Vec::new(),
            limits: koze_core::egress::Limits::default(),
        };
        let journal = EgressJournal::new(state, "s", "a");
        let policy = Policy::of_declared(&declared).unwrap();
        let reach = Reach::new(policy, Arc::new(Internet::default()), journal);
        Resolver { reach: Arc::new(reach), names: Arc::default(), last: None }
    }

    /// Returns the code and the addresses of an answer.
    async fn look_up(resolver: &mut Resolver, name: &str, kind: TYPE) -> (RCODE, Vec<Ipv4Addr>) {
        let mut query = Packet::new_query(7);
        let name = Name::new(name).unwrap();
        query.questions.push(Question::new(name.clone(), kind.into(), CLASS::IN.into(), false));
        let bytes = resolver.answer(&query.build_bytes_vec().unwrap()).await.unwrap();
        let answer = Packet::parse(&bytes).unwrap();
        assert_eq!((answer.id(), &answer.questions[0].qname), (7, &name));
        assert!(answer.has_flags(PacketFlag::RESPONSE));
        let addresses = answer.answers.iter().map(|record| match &record.rdata {
            RData::A(address) => Ipv4Addr::from(address.address),
            other => panic!("{other:?}"),
        });
        (answer.rcode(), addresses.collect())
    }

    #[tokio::test]
    async fn only_allowed_names_have_an_address() {
        let state = tempfile::tempdir().unwrap();
        let mut listed =
            resolver(state.path(), &["one.example", "*.below.example:5432", "GET part.example/y"]);
        let mut any = resolver(state.path(), &[]);
        for (name, listed_has, any_has) in [
            ("one.example", true, true),
            ("ONE.example", true, true),
            ("a.below.example", true, true),
            ("part.example", true, true),
            ("other.example", false, true),
            ("denied.example", false, false),
            ("localhost", false, false),
            ("a.localhost", false, false),
            ("1.2.0.192.in-addr.arpa", false, false),
            ("127.0.0.1", false, false),
            ("0x7f.1", false, false),
        ] {
            for (resolver, has) in [(&mut listed, listed_has), (&mut any, any_has)] {
                let wanted = if has { RCODE::NoError } else { RCODE::NameError };
                let (code, addresses) = look_up(resolver, name, TYPE::A).await;
                assert_eq!((code, addresses.len()), (wanted, usize::from(has)), "{name}");
                let (code, addresses) = look_up(resolver, name, TYPE::AAAA).await;
                assert_eq!((code, addresses.len()), (wanted, 0), "{name}");
                let (code, addresses) = look_up(resolver, name, TYPE::MX).await;
                assert_eq!((code, addresses.len()), (wanted, 0), "{name}");
            }
        }
        let refused = read_egress(state.path()).unwrap();
        let hosts: Vec<_> = refused.iter().map(|entry| (&entry.host[..], &entry.rule[..])).collect();
        assert_eq!(
            hosts,
            [
                ("other.example", "name lookup: not in allowed_hosts"),
                ("denied.example", "name lookup: denied_hosts: denied.example"),
                ("denied.example", "name lookup: denied_hosts: denied.example"),
            ],
            "one entry for all types of records"
        );
    }

    #[tokio::test]
    async fn what_is_no_query_gets_no_answer() {
        let state = tempfile::tempdir().unwrap();
        let mut resolver = resolver(state.path(), &[]);
        for bytes in [&b""[..], b"x", &[0; 11], &[0xff; 512], &[0xc0; 512]] {
            assert_eq!(resolver.answer(bytes).await, None, "{bytes:?}");
        }
        let reply = Packet::new_reply(1).build_bytes_vec().unwrap();
        assert_eq!(resolver.answer(&reply).await, None);
        // No question, a pointer to itself, and a name that is longer than names can be.
        let head = |questions| [0, 7, 1, 0, 0, questions, 0, 0, 0, 0, 0, 0];
        let none = resolver.answer(&head(0)).await.unwrap();
        assert_eq!(Packet::parse(&none).unwrap().rcode(), RCODE::FormatError);
        let pointer = [&head(1)[..], &[0xc0, 12, 0, 1, 0, 1]].concat();
        assert_eq!(resolver.answer(&pointer).await, None);
        let label = [&[63][..], &[b'a'; 63]].concat();
        let long = [&head(1)[..], &label.repeat(5), &[0, 0, 1, 0, 1]].concat();
        let answer = resolver.answer(&long).await;
        let code = answer.map(|bytes| Packet::parse(&bytes).unwrap().rcode());
        assert!(matches!(code, None | Some(RCODE::NameError)), "{code:?}");
    }
}
