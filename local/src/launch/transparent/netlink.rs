//! Messages to the kernel over netlink, and its answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeader, AddressMessage, AddressScope};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily as RouteFamily, RouteNetlinkMessage};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// The index of the loopback interface, which is the first one of a network namespace.
const LOOPBACK: u32 = 1;
/// The maximum length of an answer in bytes.
const MAX_ANSWER: usize = 16 << 10;
/// `NFNL_SUBSYS_NFTABLES`.
const NFTABLES: u16 = 10;

/// Applies rules in one transaction: all or none.
pub(super) fn apply_rules(socket: BorrowedFd<'_>, rules: Vec<NfTablesMessage>) -> io::Result<()> {
    let batch = |inner: NetfilterMessageInner, family, subsystem, flags| {
        let header = NetfilterHeader::new(family, 0, subsystem);
        (NetfilterMessage::new(header, inner), NLM_F_REQUEST | flags)
    };
    let control = |message: ControlMessage| batch(message.into(), NetfilterProtoFamily::Unspec, NFTABLES, 0);
    let mut messages = vec![control(ControlMessage::BatchBegin)];
    let create = NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK;
    messages.extend(rules.into_iter().map(|rule| batch(rule.into(), NetfilterProtoFamily::Inet, 0, create)));
    messages.push(control(ControlMessage::BatchEnd));
    request(socket, messages)
}

/// Adds an address to the loopback interface.
pub(super) fn add_address(address: Ipv4Addr) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header = AddressHeader {
        family: RouteFamily::Inet,
        prefix_len: 32,
        scope: AddressScope::Universe,
        index: LOOPBACK,
        ..AddressHeader::default()
    };
    message.attributes =
        vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
    request_route(RouteNetlinkMessage::NewAddress(message))
}

/// Adds the route for all addresses of a family, over the loopback interface and from its address.
pub(super) fn add_default_route(from: IpAddr) -> io::Result<()> {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: if from.is_ipv4() { RouteFamily::Inet } else { RouteFamily::Inet6 },
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        // The address has this scope, too.
        scope: RouteScope::Host,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    route.attributes =
        vec![RouteAttribute::Oif(LOOPBACK), RouteAttribute::PrefSource(RouteAddress::from(from))];
    request_route(RouteNetlinkMessage::NewRoute(route))
}

/// Sends a message about addresses and routes.
fn request_route(message: RouteNetlinkMessage) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    request(socket.as_fd(), vec![(message, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK)])
}

/// Sends messages with their flags, and waits for their answers. The kernel has handled them when they are sent.
fn request<M>(socket: BorrowedFd<'_>, messages: Vec<(M, u16)>) -> io::Result<()>
where
    M: NetlinkSerializable + NetlinkDeserializable,
    NetlinkPayload<M>: From<M>,
{
    let mut bytes = Vec::new();
    let mut unanswered = 0;
    for (number, (inner, flags)) in (1..).zip(messages) {
        let mut message = NetlinkMessage::from(inner);
        message.header.flags = flags;
        message.header.sequence_number = number;
        message.finalize();
        let from = bytes.len();
        bytes.resize(from + message.buffer_len(), 0);
        message.serialize(&mut bytes[from..]);
        unanswered += usize::from(flags & NLM_F_ACK != 0);
    }
    send(socket, &bytes, SendFlags::empty())?;
    let mut buffer = vec![0; MAX_ANSWER];
    while unanswered > 0 {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let answer = NetlinkMessage::<M>::deserialize(rest).map_err(io::Error::other)?;
            if let NetlinkPayload::Error(error) = &answer.payload
                && let Some(code) = error.code
            {
                return Err(io::Error::from_raw_os_error(-code.get()));
            }
            unanswered = unanswered.saturating_sub(1);
            let read = usize::try_from(answer.header.length).map_err(io::Error::other)?;
            rest = rest.get(read.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}
