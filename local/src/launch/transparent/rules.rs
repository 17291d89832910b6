//! The nftables rules in the network namespace of a sandbox:
//!
//! ```text
//! table inet koze {
//!   chain untracked { type filter hook output priority raw
//!     # Connections between programs take no entries of the kernel's table of connections, which all sandboxes share.
//!     daddr OWN th sport != PORT notrack
//!   }
//!   chain redirected { type nat hook output priority dstnat
//!     daddr != OWN meta l4proto tcp redirect to :PORT
//!   }
//!   chain refused { type filter hook output priority filter
//!     ct state new ct count over MAX_CONNECTIONS reject with tcp reset
//!     daddr OWN accept
//!     reject
//!   }
//! }
//! ```

use std::net::Ipv6Addr;

use koze_egress::transparent::{OWN_ADDRESS, PORT};
use netlink_packet_core::DefaultNla;
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, Cmp, DataAttribute, ExpressionAttribute, Expressions, Hook, Immediate,
    InetHookNumber, ListAttribute, Meta, MetaKey, NfTablesMessage, Operator, Payload, Register,
    RuleAttribute, RuleMessage, TableAttribute, TableMessage, Verdict, VerdictAttribute,
};

/// The maximum number of redirected connections of a sandbox at a time, including those that are not accepted yet.
const MAX_CONNECTIONS: u32 = 1024;

const TABLE: &str = "koze";
/// The chains, with their types and priorities.
const UNTRACKED: (&str, &str, i32) = ("untracked", "filter", -300);
const REDIRECTED: (&str, &str, i32) = ("redirected", "nat", -100);
const REFUSED: (&str, &str, i32) = ("refused", "filter", 0);

/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const FAMILIES: [u8; 2] = [2, 10];
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// The bases of payloads: the headers of the network and of the transport.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;

/// Addresses of the sandbox itself: a family, where its packets have their destination, and with what bytes it begins.
#[derive(Clone, Copy)]
struct Own {
    family: u8,
    offset: u32,
    start: &'static [u8],
}

const OWN: [Own; 3] = [
    Own { family: FAMILIES[0], offset: 16, start: &[127] },
    Own { family: FAMILIES[0], offset: 16, start: &OWN_ADDRESS.octets() },
    Own { family: FAMILIES[1], offset: 24, start: &Ipv6Addr::LOCALHOST.octets() },
];

type Expression = ListAttribute<ExpressionAttribute>;

/// Returns the messages that create the table.
pub(super) fn redirect_rules() -> Vec<NfTablesMessage> {
    let table = TableMessage { attributes: vec![TableAttribute::Name(TABLE.to_owned())] };
    let mut messages = vec![NfTablesMessage::NewTable(table)];
    messages.extend([UNTRACKED, REDIRECTED, REFUSED].map(new_chain));
    for own in OWN {
        let untracked = [leads_to(own, Operator::Equal), is_no_answer(), vec![other("notrack", &[])]];
        messages.push(new_rule(UNTRACKED, untracked.concat()));
    }
    for family in FAMILIES {
        let own = OWN.iter().filter(|own| own.family == family);
        let elsewhere = own.flat_map(|own| leads_to(*own, Operator::NotEqual)).collect();
        messages.push(new_rule(REDIRECTED, [elsewhere, is_tcp(), redirect()].concat()));
    }
    let crowded = [is_new(), vec![is_over(MAX_CONNECTIONS)], is_tcp(), vec![reset()]];
    messages.push(new_rule(REFUSED, crowded.concat()));
    for own in OWN {
        messages.push(new_rule(REFUSED, [leads_to(own, Operator::Equal), vec![accept()]].concat()));
    }
    messages.push(new_rule(REFUSED, vec![reject()]));
    messages
}

fn new_chain((name, kind, priority): (&str, &str, i32)) -> NfTablesMessage {
    let hook = vec![Hook::Number(InetHookNumber::LocalOut.into()), Hook::Priority(priority.cast_unsigned())];
    NfTablesMessage::NewChain(ChainMessage {
        attributes: vec![
            ChainAttribute::Table(TABLE.to_owned()),
            ChainAttribute::Name(name.to_owned()),
            ChainAttribute::Hook(hook),
            ChainAttribute::Policy(ACCEPT),
            ChainAttribute::Type(kind.to_owned()),
        ],
    })
}

fn new_rule((chain, ..): (&str, &str, i32), expressions: Vec<Expression>) -> NfTablesMessage {
    NfTablesMessage::NewRule(RuleMessage {
        attributes: vec![
            RuleAttribute::Table(TABLE.to_owned()),
            RuleAttribute::Chain(chain.to_owned()),
            RuleAttribute::Expressions(expressions),
        ],
    })
}

/// Matches packets of a family whose destination is, or is not, an address of the sandbox.
fn leads_to(own: Own, operator: Operator) -> Vec<Expression> {
    let length = u32::try_from(own.start.len()).unwrap_or_default();
    vec![
        load_meta(MetaKey::Nfproto),
        compare(Operator::Equal, &[own.family]),
        load_payload(NETWORK, own.offset, length),
        compare(operator, own.start),
    ]
}

/// Matches packets that do not come from the listeners. The answers of the listeners must be tracked to get their original source back.
fn is_no_answer() -> Vec<Expression> {
    vec![load_payload(TRANSPORT, 0, 2), compare(Operator::NotEqual, &PORT.to_be_bytes())]
}

fn is_tcp() -> Vec<Expression> {
    vec![load_meta(MetaKey::L4Proto), compare(Operator::Equal, &[TCP])]
}

/// Matches packets that begin a tracked connection. The state is in the byte order of the machine.
fn is_new() -> Vec<Expression> {
    /// `NFTA_CT_DREG`, `NFTA_CT_KEY` and `NFT_CT_STATE`.
    const STATE: [(u16, u32); 2] = [(1, 1), (2, 0)];
    /// The bit of `IP_CT_NEW`.
    const NEW: u32 = 8;
    vec![other("ct", &STATE), compare(Operator::Equal, &NEW.to_ne_bytes())]
}

/// Matches if the table has more connections than this.
fn is_over(count: u32) -> Expression {
    /// `NFT_CONNLIMIT_F_INV`.
    const OVER: u32 = 1;
    other("connlimit", &[(1, count), (2, OVER)])
}

/// Redirects to the port of the listeners.
fn redirect() -> Vec<Expression> {
    let port = Immediate::Data(DataAttribute::Value(PORT.to_be_bytes().to_vec()));
    let load = Expressions::Immediate(vec![Immediate::DestinationRegister(Register::Reg1), port]);
    // `NFTA_REDIR_REG_PROTO_MIN`.
    vec![load.into(), other("redir", &[(1, Register::Reg1.into())])]
}

fn accept() -> Expression {
    let verdict = VerdictAttribute::Code(Verdict::Other(ACCEPT));
    Expressions::Immediate(vec![
        Immediate::DestinationRegister(Register::Verdict),
        Immediate::Data(DataAttribute::Verdict(vec![verdict])),
    ])
    .into()
}

/// Rejects with a reset of the connection (`NFT_REJECT_TCP_RST`).
fn reset() -> Expression {
    other("reject", &[(1, 1)])
}

/// Rejects as an unreachable port (`NFT_REJECT_ICMPX_UNREACH`, `NFT_REJECT_ICMPX_PORT_UNREACH`).
fn reject() -> Expression {
    Expressions::Other {
        expression_type: "reject".to_owned(),
        attributes: vec![DefaultNla::new(1, 2_u32.to_be_bytes().to_vec()), DefaultNla::new(2, vec![1])],
    }
    .into()
}

fn load_meta(key: MetaKey) -> Expression {
    Expressions::Meta(vec![Meta::DestinationRegister(Register::Reg1), Meta::Key(key)]).into()
}

fn load_payload(base: u32, offset: u32, length: u32) -> Expression {
    Expressions::Payload(vec![
        Payload::DestinationRegister(Register::Reg1),
        Payload::Base(base),
        Payload::Offset(offset),
        Payload::Len(length),
    ])
    .into()
}

fn compare(operator: Operator, value: &[u8]) -> Expression {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(Register::Reg1),
        Cmp::Op(operator),
        Cmp::Data(DataAttribute::Value(value.to_vec())),
    ])
    .into()
}

/// Returns an expression that the library lacks, with its numbers in the byte order of the network.
fn other(name: &str, attributes: &[(u16, u32)]) -> Expression {
    let attribute = |&(kind, value): &(u16, u32)| DefaultNla::new(kind, value.to_be_bytes().to_vec());
    Expressions::Other {
        expression_type: name.to_owned(),
        attributes: attributes.iter().map(attribute).collect(),
    }
    .into()
}
