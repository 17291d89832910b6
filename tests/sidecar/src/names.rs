//! A DNS server.

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};

use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Packet, QTYPE, RCODE, ResourceRecord, TYPE};

use crate::{Policy, detached};

/// The port to which all DNS queries are redirected.
pub(crate) const PORT: u16 = 39053;

/// The address to which all names resolve, from a network reserved for benchmarks.
pub(crate) const INTERNET: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The maximum length of a query.
const MAX_QUERY: usize = 4096;

/// Starts answering queries.
pub(crate) fn serve() -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, PORT))?;
    detached(move || {
        let mut question = [0; MAX_QUERY];
        loop {
            let (length, from) = socket.recv_from(&mut question)?;
            match answer(&question[..length]) {
                Ok(answer) => drop(socket.send_to(&answer, from)?),
                Err(error) => eprintln!("sidecar: no question for a name: {error}"),
            }
        }
    });
    Ok(())
}

fn answer(question: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut packet = Packet::parse(question)?.into_reply();
    let asked = packet.questions.first().ok_or("it asks for nothing")?.clone();
    if !leads_somewhere(&Policy::now(), &asked.qname.to_string()) {
        *packet.rcode_mut() = RCODE::NameError;
    } else if asked.qtype == QTYPE::TYPE(TYPE::A) {
        packet.answers.push(ResourceRecord::new(asked.qname, CLASS::IN, 1, RData::A(A::from(INTERNET))));
    }
    Ok(packet.build_bytes_vec()?)
}

fn leads_somewhere(policy: &Policy, name: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == pattern,
    };
    policy.internet || policy.names.iter().any(fits)
}
