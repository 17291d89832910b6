# A server in a sandbox: `perl echo.pl PORT`. What it is sent comes back: the head and body of a request, and each short
# message of a WebSocket.
use strict;
use Digest::SHA qw(sha1_base64);
use IO::Socket::INET;

$SIG{CHLD} = 'IGNORE';
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 9, ReuseAddr => 1) or die $!;
while (my $client = $server->accept) {
    next if fork;
    my ($head, %header) = ('');
    while (defined(my $line = <$client>)) {
        $head .= $line;
        last if $line =~ /^\r?\n$/;
        $header{lc $1} = $2 if $line =~ /^([^:]+): *(.*?)\r?\n$/;
    }
    if (my $key = $header{'sec-websocket-key'}) {
        my $accept = sha1_base64($key . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11') . '=';
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
        syswrite $client, "HTTP/1.1 200 OK\r\nX-Powered-By: perl\r\nConnection: close\r\nContent-Length: "
            . length($answer) . "\r\n\r\n$answer";
    }
    exit;
}
