# A service in a container: `perl service.pl PORT`. It starts slowly, as most do, needs its environment, and ends when it is
# asked to. What it is sent comes back, as with `echo.pl`, but images of the tests have fewer modules than this machine.
use strict;
use Socket;

$ENV{GREETING} eq 'hello' or die 'no greeting';
$SIG{TERM} = sub { exit 0 };
$SIG{CHLD} = 'IGNORE';
sleep 2;
socket my $server, PF_INET, SOCK_STREAM, 6 or die $!;
setsockopt $server, SOL_SOCKET, SO_REUSEADDR, 1;
bind $server, sockaddr_in($ARGV[0], INADDR_ANY) or die $!;
listen $server, 9 or die $!;
while (accept my $client, $server) {
    next if fork;
    my ($head, %header) = ('');
    while (defined(my $line = <$client>)) {
        $head .= $line;
        last if $line =~ /^\r?\n$/;
        $header{lc $1} = $2 if $line =~ /^([^:]+): *(.*?)\r?\n$/;
    }
    # It answers nothing.
    exit if $head =~ m{^GET /nothing };
    if (my $key = $header{'sec-websocket-key'}) {
        my $accept = `printf %s '${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11' | openssl dgst -sha1 -binary | base64`;
        chomp $accept;
        syswrite $client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            . "Sec-WebSocket-Accept: $accept\r\n\r\n";
        while (read($client, my $start, 2) == 2) {
            my ($kind, $length) = unpack 'CC', $start;
            $length &= 127;
            read $client, my $mask, 4;
            read $client, my $data, $length;
            $data ^= substr $mask x ($length / 4 + 1), 0, $length;
            syswrite $client, pack('CC', $kind, $length) . $data;
            last if ($kind & 15) == 8;
        }
    } else {
        read $client, my $body, $header{'content-length'} // 0;
        my $answer = $head . $body;
        syswrite $client, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " . length($answer) . "\r\n\r\n$answer";
    }
    exit;
}
