//! What is behind an address: the public internet, somebody's network, or nothing at all.
//!
//! "Not globally routable" is decided from the IANA special-purpose registries, both families,
//! and from the IPv4 address that an IPv6 one carries inside (mapped, compatible, NAT64, 6to4,
//! Teredo, ISATAP): such forms are never public here, since their only use in a URL is to
//! spell an address that a naive check misses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches, from the most harmless to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Globally routable.
    Public,
    /// This machine, its networks, or a range set aside for documentation and tests.
    Private,
    /// Where cloud machines are handed their credentials; link-local IPv4 as a whole.
    Metadata,
    /// Not a destination of a TCP connection: unspecified, multicast, broadcast, reserved.
    Unusable,
}

/// Returns how far `address` reaches.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

struct Range<A> {
    base: A,
    bits: u32,
    reach: Reach,
}

const fn v4(base: [u8; 4], bits: u32, reach: Reach) -> Range<u32> {
    Range { base: u32::from_be_bytes(base), bits, reach }
}

const fn v6(base: [u16; 8], bits: u32, reach: Reach) -> Range<u128> {
    let [a, b, c, d, e, f, g, h] = base;
    Range { base: Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), bits, reach }
}

// The first match wins, so single addresses come before the ranges around them.
const V4: &[Range<u32>] = &[
    v4([168, 63, 129, 16], 32, Reach::Metadata),   // Azure
    v4([100, 100, 100, 200], 32, Reach::Metadata), // Alibaba
    v4([192, 0, 0, 192], 32, Reach::Metadata),     // Oracle
    v4([169, 254, 0, 0], 16, Reach::Metadata),     // AWS, GCP, ECS, EKS, OpenStack, Tencent
    v4([0, 0, 0, 0], 8, Reach::Unusable),
    v4([10, 0, 0, 0], 8, Reach::Private),
    v4([100, 64, 0, 0], 10, Reach::Private),
    v4([127, 0, 0, 0], 8, Reach::Private),
    v4([172, 16, 0, 0], 12, Reach::Private),
    v4([192, 0, 0, 0], 24, Reach::Private),
    v4([192, 0, 2, 0], 24, Reach::Private),
    v4([192, 88, 99, 0], 24, Reach::Private),
    v4([192, 168, 0, 0], 16, Reach::Private),
    v4([198, 18, 0, 0], 15, Reach::Private),
    v4([198, 51, 100, 0], 24, Reach::Private),
    v4([203, 0, 113, 0], 24, Reach::Private),
    v4([224, 0, 0, 0], 4, Reach::Unusable),
    v4([240, 0, 0, 0], 4, Reach::Unusable),
];

const V6: &[Range<u128>] = &[
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, Reach::Metadata), // AWS
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0], 32, Reach::Metadata),  // GCP
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Reach::Unusable),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Reach::Private),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Reach::Unusable),
    // A link-local address means nothing without a zone, and zones are refused.
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Reach::Unusable),
    // Inside 2000::/3, the rest of which is public: IETF protocols (Teredo, ORCHID, benchmarks),
    // documentation twice, 6to4.
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Reach::Private),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Reach::Private),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Reach::Private),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Reach::Private),
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Reach::Public),
    // Everything else: ULA, site-local, NAT64, discard, SRv6, unallocated.
    v6([0, 0, 0, 0, 0, 0, 0, 0], 0, Reach::Private),
];

fn reach_v4(address: Ipv4Addr) -> Reach {
    let bits = address.to_bits();
    let found = V4.iter().find(|range| (bits ^ range.base).leading_zeros() >= range.bits);
    found.map_or(Reach::Public, |range| range.reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let bits = address.to_bits();
    let found = V6.iter().find(|range| (bits ^ range.base).leading_zeros() >= range.bits);
    let outer = found.map_or(Reach::Private, |range| range.reach);
    // The wrapper itself is at best private; what it carries can only make it worse.
    let inner = embedded_v4(address).into_iter().flatten();
    inner.map(|v4| reach_v4(v4).max(Reach::Private)).fold(outer, Reach::max)
}

/// Returns the IPv4 addresses that `address` may lead to through a translator or a tunnel.
fn embedded_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0] if g == 0 && h <= 1 => [None; 4],
        // Compatible, mapped, translated (SIIT), NAT64; then ISATAP under any prefix.
        [0, 0, 0, 0, 0, 0 | 0xffff]
        | [0, 0, 0, 0, 0xffff, 0]
        | [0x64, 0xff9b, 0, 0, 0, 0]
        | [.., 0 | 0x200, 0x5efe] => [Some(join(g, h)), None, None, None],
        [0x64, 0xff9b, 1, ..] => local_nat64(address),
        [0x2002, ..] => [Some(join(b, c)), None, None, None],
        // Teredo: the server, and the client in one's complement.
        [0x2001, 0, ..] => [Some(join(c, d)), Some(join(!g, !h)), None, None],
        _ => [None; 4],
    }
}

/// Returns which of the four readings of a local NAT64 address lead to credentials: the
/// network alone knows its prefix length of 48, 56, 64 or 96 bits, where octet 8 is skipped
/// (RFC 6052, section 2.2). The other readings change nothing: the wrapper is private already.
fn local_nat64(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let [_, _, _, _, _, _, a, b, _, c, d, e, f, _, _, _] = address.octets();
    let [.., g, h] = address.segments();
    let readings = [[a, b, c, d], [b, c, d, e], [c, d, e, f], join(g, h).octets()];
    readings.map(Ipv4Addr::from).map(|v4| (reach_v4(v4) == Reach::Metadata).then_some(v4))
}

fn join(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(expected: Reach, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn the_internet_is_public_up_to_the_borders_of_the_other_ranges() {
        expect(
            Reach::Public,
            &[
                "1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
                "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255", "169.255.0.0",
                "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255",
                "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::1",
                "2606:4700:4700::1111", "2a00:1450:4001:82b::200e", "3ffe:ffff::1",
            ],
        );
    }

    #[test]
    fn this_machine_and_its_networks_are_private() {
        expect(
            Reach::Private,
            &[
                "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
                "127.255.255.254", "172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.2.1",
                "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
                "203.0.113.1", "::1", "fc00::1", "fdff:ffff::1", "fec0::1", "100::1",
                "2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "2001:20::1", "5f00::1",
                "4000::1",
            ],
        );
    }

    #[test]
    fn metadata_services_have_a_class_of_their_own() {
        expect(
            Reach::Metadata,
            &[
                "169.254.169.254", "169.254.170.2", "169.254.0.0", "169.254.255.255",
                "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
            ],
        );
    }

    #[test]
    fn what_is_no_destination_is_unusable() {
        expect(
            Reach::Unusable,
            &[
                "0.0.0.0", "0.255.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1",
                "255.255.255.255", "::", "ff02::1", "fe80::1", "febf::1",
            ],
        );
    }

    #[test]
    fn an_embedded_address_never_makes_the_outer_one_better() {
        expect(
            Reach::Private,
            &[
                "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "::ffff:8.8.8.8", "::8.8.8.8",
                "::ffff:0:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1:808:8:800::",
                "2002:7f00:1::", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
                "2a00::5efe:8.8.8.8", "2a00::200:5efe:10.0.0.1",
            ],
        );
    }

    #[test]
    fn an_embedded_address_can_make_the_outer_one_worse() {
        expect(
            Reach::Metadata,
            &[
                "::ffff:169.254.169.254", "::169.254.169.254", "::ffff:0:a9fe:a9fe",
                "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::",
                "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:8:a9:fea9:fe08:808", "2002:a9fe:a9fe::",
                "2001:0:a9fe:a9fe::f7f7:f7f7", "2001:0:808:808::5601:5601", "2a00::5efe:a9fe:a9fe",
            ],
        );
        expect(Reach::Unusable, &["64:ff9b::", "::ffff:0.0.0.0", "2002:e000:1::"]);
    }
}
