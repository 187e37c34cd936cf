// What all modules agree on. README.md has the contract of their ports.
package tlb_pkg;
  // req_op: what a request asks for. Lookups are pipelined; any other request waits for those before it to end and
  // keeps those after it waiting.
  localparam [2:0] LOOKUP = 3'd0;      // translate a page
  localparam [2:0] FILL = 3'd1;        // take a translation of a page that missed
  localparam [2:0] DROP_PAGE = 3'd2;   // the mapping of this page changed (T94-18, RMM15-12)
  localparam [2:0] DROP_SPACE = 3'd3;  // the address space is gone
  localparam [2:0] DROP_ALL = 3'd4;    // another process runs, and tags have no process (RMM15-13)
  localparam [2:0] DEMOTE = 3'd5;      // the superpage around this page was split (T94-42)

  // POLICY: which entry goes when all are valid.
  localparam USED_BIT = 0;  // T94-14: the first whose used bit is clear
  localparam LRU = 1;       // the one used longest ago
  localparam FIFO = 2;      // the one that came first
  localparam RANDOM = 3;    // one that a shift register names
endpackage
