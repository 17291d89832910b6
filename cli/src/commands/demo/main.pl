use strict;
use warnings;
use IO::Socket::INET;

my %files = ("/" => "index.html", "/assets/style.css" => "assets/style.css");
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8000", Listen => 16, ReuseAddr => 1) or die $!;
while (my $client = $server->accept) {
    my (undef, $path) = split / /, <$client> // next;
    1 while defined(my $line = <$client>) && $line !~ /^\r?\n/;
    my $name = $files{$path};
    if ($name && open my $file, "<", "static/$name") {
        print $client "HTTP/1.0 200 OK\r\n\r\n", <$file>;
    } else {
        print $client "HTTP/1.0 404 Not Found\r\n\r\n";
    }
}
