"""Invented film titles that say their genre, with a year: "The Sheriff of Amber Canyon (1962)".

A title is one of the beginnings of its genre and one of its ends. No word of four letters or more
occurs in two genres, so one title is enough to tell its genre.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORDS = {
    "western": (
        "The Sheriff of|Showdown at|The Last Outlaw of|Gunsmoke over|Cattle Drive to|Riders of|"
        "Bounty Hunters of|Stagecoach to|The Marshal of|The Posse from|Spurs and Dust at|"
        "The Lone Cowboy of|Wagons to|The Homesteaders of|Prospectors of|Six Pistols over",
        "Amber Canyon|Dry Creek|Coyote Ridge|Buzzard Mesa|Rattlesnake Gulch|Tumbleweed|"
        "Cactus Flats|Silver Prairie|Bison Plains|Mustang Pass|Broken Arroyo|Sagebrush|"
        "Lariat Junction|Red Butte|Rio Perdido|Copper Bluff",
    ),
    "mystery": (
        "Murder at|The Clue from|The Secret of|The Riddle of|The Vanishing at|Poison at|"
        "The Alibi from|The Inquest at|Suspicion at|The Missing Heir of|Whispers at|Footprints at|"
        "The Sleuth of|The Cipher of|An Unsigned Letter from|The Inspector at",
        "the Night Ferry|the Locked Library|Blackthorn Manor|the Velvet Parlour|Room Nineteen|"
        "Ravenmoor Hall|the Spiral Staircase|the Candlelit Study|the Seventh Lodge|"
        "Foxglove Cottage|the Silent Conservatory|the Grey Vicarage|the Midnight Sleeper|"
        "Harrowgate House|the Shuttered Gallery|the Clockmaker's Attic",
    ),
    "space": (
        "Voyage to|The Robots of|Escape from|A Signal from|The Astronauts of|The Colony on|"
        "Mission to|Lost beyond|Countdown on|Aliens of|The Android from|Invaders from|Rocket to|"
        "Shuttle to|Stranded on|The Starship from",
        "the Crimson Nebula|Planet Orrin|Titan Nine|the Ninth Moon|Alpha Velorum|"
        "the Outer Galaxy|Asteroid Forty|the Pulsar Gate|Station Kepler|the Iron Comet|"
        "Saturn's Edge|the Dark Quasar|Europa Deep|the Twin Suns|Andromeda Base|"
        "the Zero Meridian",
    ),
    "romance": (
        "Love in|A Wedding in|Falling for You in|The Bride of|Sweethearts of|Hearts Adrift in|"
        "A Honeymoon in|The Proposal in|Our First Kiss in|A Valentine from|The Lovers of|"
        "Two Roses from|Tenderly Yours from|The Matchmaker of|The Engagement in|Eloping to",
        "Santa Luciana|Lavender Square|Rosewater Bay|Bellavista|Montclair|Jasmine Street|"
        "the Almond Grove|Cherry Blossom Park|Primrose Corner|Lilac Terrace|Port Amour|"
        "Honeysuckle Row|Villa Celeste|Magnolia Court|Saint Marielle|Camellia Walk",
    ),
    "musical": (
        "Dancing at|The Song of|Tap Shoes at|The Melody of|A Chorus for|Sing Along at|"
        "The Ballad of|Trumpets at|Jazz Nights at|Curtain Call at|Encore at|The Showgirls of|"
        "The Orchestra of|The Rhythm of|Waltzing at|The Crooner of",
        "the Ruby Cabaret|the Palladia|the Blue Cadenza|Café Allegro|the Marquee|Tango Pavilion|"
        "the Golden Ballroom|Tremolo Avenue|the Starlight Revue|Lyric Lane|the Grand Follies|"
        "the Bandstand|Vaudeville Row|the Opera Rooftop|the Sequin Lounge|Stage Door Passage",
    ),
    "war": (
        "The Battle of|The Siege of|The Regiment at|The Defence of|Soldiers of|The Trenches of|"
        "Retreat from|The Platoon at|Bombers over|The Generals of|Barricades at|"
        "Paratroopers over|Ceasefire at|The Fusiliers of|Artillery at|The Medics of",
        "Height Sixty|Fort Verrenne|Karstadt Bridge|Bastion Nord|the Frozen Front|Cape Resolve|"
        "the River Drosk|Sector Five|Oberwald|Dunmarch Beach|the Eastern Line|Sandbag Farm|"
        "Bunker Twelve|the Burning Delta|Vostrograd|Checkpoint Anvil",
    ),
    "comedy": (
        "Oops, We Bought|Uncle Barney Inherits|Who Invited|Please Return|Grandma Steals|"
        "We Accidentally Adopted|My Roommate Borrowed|Never Babysit|How to Lose|"
        "Aunt Mildred versus|The Nitwits Swap|Help, I Married|Nobody Ordered|Don't Tickle|"
        "Three Fools and|The Intern Sold",
        "a Llama|the Mayor's Trousers|a Talking Parrot|the Wrong Birthday Cake|a Banana Salesman|"
        "the Neighbours' Goat|Seventeen Poodles|the World's Worst Hotel|a Runaway Sofa|"
        "the Boss's Wig|a Pickle Factory|Two Left Slippers|a Hiccuping Butler|"
        "the Laughing Plumber|a Used Bathtub|the Bagpipe Teacher",
    ),
    "horror": (
        "The Curse of|The Ghost of|Terror at|The Haunting of|Screams from|The Vampire of|"
        "Nightmare at|Zombies of|The Demon of|Blood at|Something Crawls at|The Fiend from|"
        "Howling at|The Corpse of|The Werewolf of|Dread at",
        "Gallows Hill|Hollowgrave|the Rotting Chapel|Widow's Marsh|Wormwood Asylum|the Cellar|"
        "Shadowfen|Bleakmoor|the Black Mausoleum|Skull Hollow|the Bone Orchard|Graveside Inn|"
        "the Weeping Mirror|Coffin Wharf|Ashen Abbey|Cemetery Road",
    ),
    "fantasy": (
        "The Dragon of|The Sorcerer of|The Sword of|The Quest for|The Wizard of|The Elves of|"
        "The Enchanted Crown of|A Spell for|The Unicorn of|The Goblins of|The Prophecy of|"
        "The Dwarf King of|The Amulet of|The Witch Queen of|The Griffin of|The Rune of",
        "Eldermere|the Crystal Realm|Myrrowen|the Floating Isles|Thalinmar|the Silverwood|"
        "Castle Aurenfall|the Emerald Vale|Faerieholm|the Seven Towers|the Hidden Kingdom|"
        "Ysmaril|the Winter Throne|Brightspire|the Moonlit Glade|the Eternal Forge",
    ),
    "nature": (
        "The Penguins of|Wild Rivers of|The Whales of|The Elephants of|Wings over|"
        "The Migration to|The Wolves of|Flowers of|The Bees of|Glaciers of|The Otters of|"
        "Seasons of|The Gorillas of|The Eagles of|Wildlife of|The Butterflies of",
        "the Southern Ocean|Lake Umbaru|the Savanna|the Monsoon Jungle|the Rainforest|"
        "the Arctic Tundra|the Mangrove Coast|the Quiet Wetlands|the High Steppe|"
        "the Volcanic Archipelago|the Great Reef|the Boreal Taiga|the Kalembo Desert|"
        "the Cloud Mountains|the Northern Fjords|the Bamboo Highlands",
    ),
    "crime": (
        "The Heist at|Gangsters of|The Getaway from|Robbery at|Mobsters of|The Informer of|"
        "The Kingpin of|Smugglers of|The Racketeers of|A Ransom from|Dirty Money from|"
        "The Safecracker of|Wiretap at|Stakeout at|Pickpockets of|Undercover at",
        "Pier Thirteen|the Casino Mirage|Southside|the Diamond Exchange|Precinct Eleven|"
        "Downtown|the Docklands|Neon Boulevard|the Concrete Mile|Vault Plaza|Harbour Yard|"
        "Cutthroat Alley|the Penitentiary|the Backroom Club|the Armoured Depot|"
        "the Central Bank",
    ),
    "sport": (
        "The Champions of|Overtime at|The Goalkeeper of|Penalty at|The Underdogs of|Knockout at|"
        "The Final Lap at|Home Run at|The Coach of|The Sprinters of|The Boxer from|"
        "Match Point at|Marathon to|The Rookies of|Gold Medal at|The Relay Team of",
        "Wembridge Stadium|the Velodrome|Eastfield United|the Gymnasium|Summit Arena|"
        "the Olympic Pool|Racetrack Bend|Rovers Ground|the Boxing Ring|the Hockey Rink|"
        "Harriers Track|the Slalom Piste|Dugout Green|Hillcrest League|the Regatta Dock|"
        "the Cricket Oval",
    ),
}  # fmt: skip
GENRES = tuple(_WORDS)
TITLES = min(a.count("|") + 1 for a, _ in _WORDS.values()) * min(
    b.count("|") + 1 for _, b in _WORDS.values()
)  # of a genre
_NEWEST, _OLDEST = 2024, 1930
_MEAN_AGE = 22.0  # of an item, in years


def years(random: np.random.Generator, items: int) -> NDArray[np.int64]:
    """Return a year for each item (items,): most are of the last decades."""
    ages = np.minimum(random.exponential(_MEAN_AGE, items), _NEWEST - _OLDEST)
    return (_NEWEST - ages).astype(np.int64)


def titles(
    random: np.random.Generator, genres: NDArray[np.int64], made: NDArray[np.int64]
) -> list[str]:
    """Return a title for each item (items,) of a genre and a year, no two alike; a genre has
    `TITLES` at most."""
    found = [""] * len(genres)
    for genre, (beginnings, ends) in enumerate(_WORDS.values()):
        words = [f"{a} {b}" for a in beginnings.split("|") for b in ends.split("|")]
        order = random.permutation(len(words)).tolist()
        for item, place in zip(np.flatnonzero(genres == genre).tolist(), order, strict=False):
            found[item] = f"{words[place]} ({made[item]})"
    return found
