// Which entry of a set a new one takes, and what the set remembers of its use: combinational, for a set of any number
// of ways. Invalid entries go first, the lowest before the others (AMB-5, AMB-6). Locked entries never go, as long as
// one is not locked.
//
//   USED_BIT  T94-14: a used bit each; the lowest entry whose bit is clear goes; without one, all bits are cleared.
//             FILL_SETS_USED (AMB-3): the access that missed sets the bit of the entry it filled.
//   LRU       a list of the ways, that of the oldest use first (RMM15-11, AMB-80).
//   FIFO      the same list; only a new entry moves to its end.
//   RANDOM    (number x WAYS) div 2^16, one number for each victim.
module policy #(
    parameter int WAYS = 4,
    parameter int POLICY = tlb_pkg::USED_BIT,
    parameter int FILL_SETS_USED = 1,
    parameter int INDEX = $clog2(WAYS),
    parameter int STATE = POLICY == tlb_pkg::LRU || POLICY == tlb_pkg::FIFO ? WAYS * INDEX : WAYS
) (
    input  wire  [STATE-1:0] state,   // what the set remembers
    input  wire  [ WAYS-1:0] valid,
    input  wire  [ WAYS-1:0] locked,
    input  wire  [     15:0] number,  // from an LFSR
    input  wire              touch,   // an access hit `way`
    input  wire              join_,   // a fill joined `way`
    input  wire              place,   // a fill takes `victim`
    input  wire  [ WAYS-1:0] way,     // one bit
    output logic [ WAYS-1:0] victim,  // one bit
    output logic             draws,   // the victim is the one that `number` named
    output logic [STATE-1:0] next     // what the set remembers then
);
  logic [WAYS-1:0] vacant, chosen, changed, open;
  logic full;
  assign open = ~locked;
  assign full = (open & ~valid) == '0;
  first_set #(.WIDTH(WAYS)) find_vacant (.bits(open & ~valid), .first(vacant));
  assign victim = full ? chosen : vacant;
  assign changed = place ? victim : way;
  assign draws = POLICY == tlb_pkg::RANDOM && place && full;

  generate
    if (POLICY == tlb_pkg::USED_BIT) begin : g_used
      logic [WAYS-1:0] candidates, kept;
      logic cleared;
      assign cleared = (open & ~state) == '0;
      assign candidates = cleared ? open : open & ~state;
      first_set #(.WIDTH(WAYS)) find_unused (.bits(candidates), .first(chosen));
      assign kept = full && cleared ? '0 : state;
      always_comb begin
        next = state;
        if (place) next = FILL_SETS_USED != 0 ? kept | changed : kept & ~changed;
        else if (touch || (join_ && FILL_SETS_USED != 0)) next = state | changed;
      end
    end else if (POLICY == tlb_pkg::RANDOM) begin : g_random
      localparam [INDEX:0] COUNT = WAYS[INDEX:0];
      logic [16+INDEX:0] scaled;
      logic [WAYS-1:0] named, beyond, above, wrapped;
      assign scaled = number * COUNT;
      // A locked entry hands on to the next that is not.
      always_comb begin
        for (int i = 0; i < WAYS; i++) named[i] = scaled[16+:INDEX] == i[INDEX-1:0];
        for (int i = 0; i < WAYS; i++) beyond[i] = i[INDEX-1:0] >= scaled[16+:INDEX];
      end
      first_set #(.WIDTH(WAYS)) find_above (.bits(open & beyond), .first(above));
      first_set #(.WIDTH(WAYS)) find_open (.bits(open), .first(wrapped));
      assign chosen = (named & locked) == '0 ? named : above != '0 ? above : wrapped;
      assign next = state;
    end else begin : g_order
      logic [INDEX-1:0] index, oldest;
      logic seen, moves, found;
      encode #(.WIDTH(WAYS)) encode_way (.one(changed), .index(index));
      always_comb begin
        found = 1'b0;
        oldest = '0;
        for (int i = 0; i < WAYS; i++) begin
          if (!found && !locked[state[i*INDEX+:INDEX]]) begin
            found = 1'b1;
            oldest = state[i*INDEX+:INDEX];
          end
        end
        for (int i = 0; i < WAYS; i++) chosen[i] = oldest == i[INDEX-1:0];
      end
      assign moves = place || (POLICY == tlb_pkg::LRU && (touch || join_));
      always_comb begin
        next = state;
        seen = 1'b0;
        for (int i = 0; i < WAYS - 1; i++) begin
          seen = seen || state[i*INDEX+:INDEX] == index;
          if (moves && seen) next[i*INDEX+:INDEX] = state[(i+1)*INDEX+:INDEX];
        end
        if (moves) next[(WAYS-1)*INDEX+:INDEX] = index;
      end
    end
  endgenerate
endmodule
