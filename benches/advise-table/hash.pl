# A hash with the given number of entries, filled, then read in another order.
my $n = shift;
my %h;
$h{"key$_"} = "value $_" for 1 .. $n;
my $sum = 0;
$sum += length $h{ "key" . ($_ * 7919 % $n + 1) } for 1 .. $n;
print "$sum\n";
