/** What search.js uses of the search library in the theme's worker. */
declare const lunr: {
  stopWordFilter(word: string): string | undefined;
  tokenizer: { separator: RegExp };
};
